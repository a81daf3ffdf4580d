import { Scope } from "@recollect/client";
import { t } from "../../texts";
import type { View } from "../registry";

export const view: View = {
  path: "/settings",
  name: t.nav.settings,
  icon: "gear",
  order: 2,
  of: "server",
  scopes: [Scope.ADMIN],
  reach: "server",
  load: () => import("./Settings"),
};
