import { Scope } from "@recollect/client";
import { t } from "../../texts";
import type { View } from "../registry";

export const view: View = {
  path: "/c",
  name: t.nav.conversation,
  icon: "chat",
  scopes: [Scope.CONVERSATIONS_READ],
  load: () => import("./Conversation"),
};
