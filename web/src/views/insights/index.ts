import { Scope } from "@recollect/client";
import { t } from "../../texts";
import type { View } from "../registry";

export const view: View = {
  path: "/insights",
  name: t.nav.insights,
  icon: "chart",
  order: 2,
  scopes: [Scope.CONVERSATIONS_READ],
  reach: "space",
  load: () => import("./Insights"),
};
