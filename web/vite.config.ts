import { defineConfig } from "vite";

// Names without hashes: the bundle is committed, so that a change of one view changes one file. The
// bridge has browsers ask for the newest of each file every time, by its ETag.
/** Leave out the fonts of formulas in forms that every browser of `cssTarget` has a better one for. */
const newestFonts = {
  name: "newest-fonts",
  enforce: "pre" as const,
  transform: (code: string, id: string) =>
    id.endsWith("katex.css") ? code.replace(/,\s*url\([^)]*\.(?:woff|ttf)\) format\([^)]*\)/g, "") : undefined,
};

export default defineConfig({
  plugins: [newestFonts],
  base: "./", // the bridge writes the path into the index that it serves it under
  resolve: {
    alias: { "@recollect/client": new URL("../clients/typescript/src/index.ts", import.meta.url).pathname },
    dedupe: ["@bufbuild/protobuf", "@connectrpc/connect", "@connectrpc/connect-web"],
  },
  build: {
    outDir: "../packages/page/src/recollect/web/static",
    emptyOutDir: true,
    target: "es2022",
    cssTarget: ["chrome123", "firefox120", "safari17.5"],
    modulePreload: { polyfill: false },
    assetsInlineLimit: 0,
    reportCompressedSize: false,
    rolldownOptions: {
      // The worker is an entry of this build and shares its chunks, instead of a bundle of its own.
      input: { page: "index.html", worker: "src/live/worker.ts" },
      output: {
        entryFileNames: "assets/[name].js",
        chunkFileNames: "assets/[name].js",
        assetFileNames: "assets/[name][extname]",
      },
    },
  },
});
