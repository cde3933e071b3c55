// What changes something is first shown: what it does, and the command that does the same.

import type { DiffLine } from './diff';
import { toasts } from './toasts.svelte';

export interface Deed {
  title: string;
  detail?: string;
  command: string;
  /** The lines that the change adds and removes. */
  diff?: DiffLine[];
  label: string;
  isDanger?: boolean;
  run: () => Promise<unknown>;
  /** Said when it is done. */
  done: string;
}

class Doing {
  deed = $state.raw<Deed | undefined>();
  isBusy = $state(false);
  problem = $state('');

  ask(deed: Deed) {
    this.problem = '';
    this.deed = deed;
  }

  cancel() {
    this.deed = undefined;
  }

  async perform() {
    const deed = this.deed;
    if (!deed) return;
    this.isBusy = true;
    try {
      await deed.run();
      toasts.say('good', deed.done);
      this.deed = undefined;
    } catch (error) {
      this.problem = error instanceof Error ? error.message : String(error);
    } finally {
      this.isBusy = false;
    }
  }
}

export const doing = new Doing();
