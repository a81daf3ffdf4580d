import { Scope } from "@recollect/client";
import { t } from "../../texts";
import type { View } from "../registry";

export const view: View = {
  path: "/audit",
  name: t.nav.audit,
  icon: "list",
  order: 4,
  of: "server",
  scopes: [Scope.ADMIN],
  reach: "space",
  load: () => import("./Audit"),
};
