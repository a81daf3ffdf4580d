// Links that others wrote, which lead out of the page.
import type { ComponentChildren } from "preact";

const PROTOCOLS = new Set(["http:", "https:", "mailto:"]);

/** Return the address of a link that leads to another place, of a kind that does nothing else. */
export function addressOf(href: string): URL | undefined {
  try {
    const address = new URL(href);
    return PROTOCOLS.has(address.protocol) ? address : undefined;
  } catch {
    return undefined;
  }
}

export function Outside({ href, children }: { href: string; children: ComponentChildren }) {
  return <a href={href} rel="noopener noreferrer nofollow" target="_blank" dir="auto">{children}</a>;
}
