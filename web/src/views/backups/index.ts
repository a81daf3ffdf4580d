import { Scope } from "@recollect/client";
import { t } from "../../texts";
import type { View } from "../registry";

export const view: View = {
  path: "/backups",
  name: t.nav.backups,
  icon: "disks",
  order: 5,
  of: "server",
  scopes: [Scope.ADMIN],
  reach: "space",
  load: () => import("./Backups"),
};
