// What was done, or why not, for a moment at the edge of the page.

export interface Toast {
  id: number;
  tone: 'good' | 'bad';
  text: string;
}

const SECONDS = 6;
const TOASTS_MAX = 4;

class Toasts {
  all = $state.raw<Toast[]>([]);
  private next = 1;

  say(tone: Toast['tone'], text: string) {
    const id = this.next++;
    this.all = [...this.all, { id, tone, text }].slice(-TOASTS_MAX);
    setTimeout(() => this.drop(id), SECONDS * 1_000);
  }

  drop(id: number) {
    this.all = this.all.filter((one) => one.id !== id);
  }
}

export const toasts = new Toasts();
