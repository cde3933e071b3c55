// Light, dark, or as the system has it; and the colour of the past.

import { route } from './route.svelte';

export type Theme = 'system' | 'light' | 'dark';
const KEY = 'setpoint.theme';

class Look {
  theme = $state<Theme>((localStorage.getItem(KEY) as Theme | null) ?? 'system');
  private isDark = $state(false);

  constructor() {
    const query = matchMedia('(prefers-color-scheme: dark)');
    this.isDark = query.matches;
    query.addEventListener('change', () => (this.isDark = query.matches));
  }

  get shown(): 'light' | 'dark' {
    if (this.theme !== 'system') return this.theme;
    return this.isDark ? 'dark' : 'light';
  }

  choose(theme: Theme) {
    this.theme = theme;
    localStorage.setItem(KEY, theme);
  }

  /** To be called in an effect. */
  apply() {
    document.documentElement.dataset.theme = this.shown;
    document.documentElement.dataset.past = String(route.at !== '');
  }
}

export const look = new Look();
