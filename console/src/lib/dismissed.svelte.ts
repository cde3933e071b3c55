// Problems that the user dismissed; this browser remembers them.

const KEY = 'setpoint.dismissed';
const KEYS_MAX = 200;

function read(): string[] {
  try {
    const kept: unknown = JSON.parse(localStorage.getItem(KEY) ?? '[]');
    return Array.isArray(kept) ? kept.filter((one) => typeof one === 'string') : [];
  } catch {
    return [];
  }
}

class Dismissed {
  private keys = $state.raw(read());

  /** A dismissed problem appears again when its title changes. */
  has({ id, title }: { id: string; title: string }): boolean {
    return this.keys.includes(`${id} ${title}`);
  }

  add({ id, title }: { id: string; title: string }) {
    this.keep([...this.keys, `${id} ${title}`].slice(-KEYS_MAX));
  }

  clear() {
    this.keep([]);
  }

  private keep(keys: string[]) {
    this.keys = keys;
    localStorage.setItem(KEY, JSON.stringify(keys));
  }
}

export const dismissed = new Dismissed();
