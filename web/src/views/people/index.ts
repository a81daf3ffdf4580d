import { Scope } from "@recollect/client";
import { t } from "../../texts";
import type { View } from "../registry";

export const view: View = {
  path: "/third-parties",
  name: t.nav.people,
  icon: "people",
  order: 3,
  scopes: [Scope.COMMUNICATIONS_READ],
  reach: "space",
  load: () => import("./People"),
};
