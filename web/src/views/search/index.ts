import { Scope } from "@recollect/client";
import { t } from "../../texts";
import type { View } from "../registry";

export const view: View = {
  path: "/search",
  name: t.nav.search,
  icon: "search",
  order: 1,
  scopes: [Scope.RECALL],
  load: () => import("./Search"),
};
