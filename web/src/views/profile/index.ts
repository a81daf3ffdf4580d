import { Scope } from "@recollect/client";
import { t } from "../../texts";
import type { View } from "../registry";

export const view: View = {
  path: "/profile",
  name: t.nav.profile,
  short: t.nav.profileShort,
  icon: "person",
  order: 2.5,
  scopes: [Scope.RECALL],
  reach: "space",
  load: () => import("./Profile"),
};
