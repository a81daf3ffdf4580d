// The lines that store the first conversation.
import { t } from "../texts";
import { Copy } from "../ui/Copy";

export function FirstLines() {
  return (
    <figure class="code-block bare first-lines">
      <Copy text={t.sidebar.fill} label={t.app.copyCode} />
      <pre class="code" tabIndex={0}>{t.sidebar.fill}</pre>
    </figure>
  );
}
