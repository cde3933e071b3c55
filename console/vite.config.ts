import { svelte } from '@sveltejs/vite-plugin-svelte';
import { defineConfig } from 'vite';

// The program serves what is built here below `/console/` and allows nothing inline, so assets stay
// files. `SETPOINT_API` is for development: `SETPOINT_API=https://127.0.0.1:6443 npm run dev`.
const api = process.env.SETPOINT_API;
const proxied = { target: api, secure: false, ws: true };

export default defineConfig({
  base: '/console/',
  plugins: [svelte()],
  build: {
    outDir: 'dist',
    // `cargo xtask console` replaces the directory as a whole.
    emptyOutDir: false,
    assetsInlineLimit: 0,
    target: 'es2022',
    modulePreload: { polyfill: false },
    chunkSizeWarningLimit: 400,
  },
  server: api
    ? { proxy: { '/api': proxied, '/apis': proxied, '/version': proxied, '/console/session': proxied } }
    : {},
});
