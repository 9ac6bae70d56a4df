// One script, one style sheet, one icon: their names never change, because the program carries them by name.
import { defineConfig } from "vite";

export default defineConfig({
  esbuild: { jsx: "automatic", jsxImportSource: "preact", legalComments: "none" },
  build: {
    outDir: "built",
    emptyOutDir: true,
    target: "es2022",
    modulePreload: false,
    cssCodeSplit: false,
    assetsInlineLimit: 0,
    reportCompressedSize: false,
    rollupOptions: {
      output: { entryFileNames: "page.js", assetFileNames: "page.[ext]", inlineDynamicImports: true },
    },
  },
  // `npx vite` beside a running `saccade serve`.
  server: { proxy: { "/api": "http://127.0.0.1:7700" } },
});
