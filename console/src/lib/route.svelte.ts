// Every view is an address: the path says what is shown, the query how and when.

export const BASE = '/console';

/** What is not well encoded is taken as it stands. */
function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

class Route {
  path = $state('/');
  query = $state.raw(new URLSearchParams());
  /** The parts of the path, decoded. */
  readonly parts: string[] = $derived(this.path.split('/').filter(Boolean).map(decoded));
  // Each tells only of its own changes: another word in the filter reads no list again.
  /** The moment that is shown: a revision or a time; empty is now. */
  readonly at: string = $derived(this.query.get('at') ?? '');
  readonly namespace: string = $derived(this.query.get('ns') ?? '');
  readonly tab: string = $derived(this.query.get('tab') ?? '');

  constructor() {
    this.read();
    addEventListener('popstate', () => this.read());
  }

  private read() {
    this.path = location.pathname.slice(BASE.length) || '/';
    this.query = new URLSearchParams(location.search);
  }


  go(address: string, replace = false) {
    if (replace) history.replaceState(null, '', address);
    else history.pushState(null, '', address);
    const before = this.path;
    this.read();
    if (before !== this.path) scrollTo(0, 0);
  }

  /** Changes the query of this view; what is empty is left out. */
  set(changes: Record<string, string>, replace = false) {
    this.go(address(this.path, { ...Object.fromEntries(this.query), ...changes }), replace);
  }
}

export const route = new Route();

function address(path: string, query: Record<string, string>): string {
  const kept = Object.entries(query).filter(([, value]) => value !== '');
  const text = new URLSearchParams(kept).toString();
  return BASE + path + (text ? `?${text}` : '');
}

/** The address of a view; the moment and the namespace are kept. */
export function to(path: string, query: Record<string, string> = {}): string {
  const kept: Record<string, string> = {};
  if (route.at) kept.at = route.at;
  if (route.namespace) kept.ns = route.namespace;
  return address(path, { ...kept, ...query });
}

/** Which kind of object: `core` is the group without a name. */
export interface Kinded {
  group: string;
  version: string;
  resource: string;
}

export function toKind(kind: Kinded, query: Record<string, string> = {}): string {
  return to(`/k/${kind.group || 'core'}/${kind.version}/${kind.resource}`, query);
}

export function toObject(
  kind: Kinded,
  namespace: string,
  name: string,
  query: Record<string, string> = {},
): string {
  const place = `${encodeURIComponent(namespace || '-')}/${encodeURIComponent(name)}`;
  return to(`/o/${kind.group || 'core'}/${kind.version}/${kind.resource}/${place}`, query);
}

/** Links of the console do not load the page again. */
export function followLinks() {
  document.addEventListener('click', (event) => {
    const link = (event.target as Element | null)?.closest?.('a');
    if (!link || event.defaultPrevented || event.button !== 0 || link.target) return;
    if (event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    const url = new URL(link.href, location.href);
    if (url.origin !== location.origin || !url.pathname.startsWith(BASE + '/')) return;
    if (url.pathname === location.pathname && url.search === location.search && url.hash) return;
    event.preventDefault();
    route.go(url.pathname + url.search);
  });
}
