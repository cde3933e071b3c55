// The past, where the server keeps it: how far back it goes, and what the page shows of it.

import { SvelteMap } from 'svelte/reactivity';
import { HISTORY, request } from './api';
import { now } from './live.svelte';
import { route } from './route.svelte';

interface Point {
  revision: number;
  time: string;
}

export interface Change {
  path: string;
  from?: unknown;
  to?: unknown;
}

/** The write that led to this one. */
export interface Cause {
  revision: number;
  user?: string;
  object?: { kind: string; name: string };
}

export interface Revision {
  /** None for what happened in the cluster that an object was brought from. */
  revision: number | null;
  source?: { revision: number };
  time: string;
  type: 'Created' | 'Changed' | 'Deleted';
  user?: string;
  manager?: string;
  request?: string;
  cause?: Cause | null;
  changes?: Change[];
}

export interface Step {
  time: string;
  revision?: number;
  milliseconds?: number;
  depth?: number;
  actor?: string;
  object?: { apiVersion: string; kind: string; namespace?: string; name: string };
  sentence: string;
}

export interface Trace {
  state?: string;
  sentence?: string;
  waitingFor?: { sentence: string; hint?: string }[];
  steps?: Step[];
  verdicts?: { node: string; reason: string }[];
}

/** Why there is nothing to show where the group is not served. */
export const WITHOUT =
  'This server keeps no history: it does not serve the group history.setpoint.dev.';

class Past {
  oldest = $state.raw<Point | undefined>();
  newest = $state.raw<Point | undefined>();
  /** Whether the server was asked; then whether it keeps one. */
  isAsked = $state(false);

  get isKept(): boolean {
    return this.oldest !== undefined;
  }

  async load() {
    try {
      const line = await request(`${HISTORY}/timeline`, { isLive: true });
      this.oldest = line.oldest;
      this.newest = line.newest;
    } catch {
      this.oldest = undefined;
    }
    this.isAsked = true;
  }

  /** When the moment was that an address names. */
  resolve(at: string): number {
    if (!at) return 0;
    const ago = /^-(\d+)([smhd])$/.exec(at);
    const sizes: Record<string, number> = { s: 1, m: 60, h: 3_600, d: 86_400 };
    if (ago) return Date.now() - Number(ago[1]) * (sizes[ago[2] ?? 's'] ?? 1) * 1_000;
    if (!/^\d+$/.test(at)) return Date.parse(at) || 0;
    return this.byRevision(Number(at));
  }

  /** Revisions are not even in time, so that it is not known before it was asked for. */
  private byRevision(revision: number): number {
    return this.seen.get(revision) ?? 0;
  }

  private seen = new SvelteMap<number, number>();

  /** Asks when a revision was, unless that is known. */
  async learn(at: string) {
    if (!/^\d+$/.test(at) || this.seen.has(Number(at))) return;
    try {
      const line = await request(`${HISTORY}/timeline?at=${at}`, { isLive: true });
      this.note(Number(at), line.at?.time ?? '');
    } catch {
      // What is shown says what is wrong with the moment.
    }
  }

  /** Remembers when a revision was, from any list that says so. */
  note(revision: number | null | undefined, time: string) {
    const at = Date.parse(time);
    if (revision && at) this.seen.set(revision, at);
  }

  show(at: string, replace = false) {
    now.past = this.resolve(at);
    route.set({ at }, replace);
  }
}

export const past = new Past();
