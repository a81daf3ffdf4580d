import { Scope } from "@recollect/client";
import { t } from "../../texts";
import type { View } from "../registry";

export const view: View = {
  path: "/health",
  name: t.nav.health,
  icon: "pulse",
  order: 1,
  of: "server",
  scopes: [Scope.ADMIN],
  reach: "space",
  load: () => import("./Health"),
};
