// Lists that follow the server: read once, then kept by a watch. Of the past there is no watch.

import { Failure, request, table, watch, type Column, type KubeObject, type Row } from './api';
import type { Table } from './api';
import type { Computed } from './columns';
import { route } from './route.svelte';

/** Rows of one page of a long list; the first is shown while the others come. */
const PAGE_ROWS = 1_000;
/** How long changes are gathered before they are shown. */
const GATHER_MILLISECONDS = 80;
const RETRY_MILLISECONDS = 1_000;
const RETRY_MILLISECONDS_MAX = 15_000;

export function pause(milliseconds: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, milliseconds);
    signal.addEventListener('abort', () => (clearTimeout(timer), resolve()), { once: true });
  });
}

/** Codes of a server that is there, whatever it says. */
const isAnswer = (code: number) => code >= 400 && code < 500;

export type ListState = 'loading' | 'live' | 'past' | 'waiting' | 'failed';

/** What every list that is followed shares: reading again, and waiting longer each time. */
abstract class Followed {
  state = $state<ListState>('loading');
  problem = $state('');
  code = $state(0);
  private ending = new AbortController();
  private isDirty = false;

  constructor(readonly path: string) {}

  protected abstract read(signal: AbortSignal): Promise<string>;
  protected abstract follow(revision: string, signal: AbortSignal): Promise<string>;
  protected abstract show(): void;

  /** Begins; the answer ends it, as an effect wants it. */
  start(): () => void {
    void this.run(this.ending.signal);
    return () => this.ending.abort();
  }

  protected changed() {
    if (this.isDirty) return;
    this.isDirty = true;
    setTimeout(() => {
      this.isDirty = false;
      if (!this.ending.signal.aborted) this.show();
    }, GATHER_MILLISECONDS);
  }

  protected watched(signal: AbortSignal) {
    return { signal, begun: () => this.isWell('live') };
  }

  /** What was read is there, or the watch has begun. */
  protected isWell(state: 'live' | 'past') {
    this.state = state;
    this.problem = '';
  }

  private async run(signal: AbortSignal) {
    const isPast = route.at !== '';
    let wait = RETRY_MILLISECONDS;
    let revision = '';
    while (!signal.aborted) {
      try {
        if (!revision) revision = await this.read(signal);
        if (signal.aborted) return;
        if (isPast) return this.isWell('past');
        revision = await this.follow(revision, signal);
        wait = RETRY_MILLISECONDS;
      } catch (error) {
        if (signal.aborted) return;
        const code = error instanceof Failure ? error.code : 0;
        this.problem = error instanceof Error ? error.message : String(error);
        this.code = code;
        const isFinal = [400, 401, 403, 404, 405, 406].includes(code) || isPast;
        this.state = isFinal ? 'failed' : 'waiting';
        if (isFinal && (isPast || code !== 404)) return;
        if (code === 410) revision = '';
        wait = isAnswer(code) ? Math.min(wait * 2, RETRY_MILLISECONDS_MAX) : RETRY_MILLISECONDS;
      }
      await pause(wait, signal);
    }
  }
}

function key(object: { metadata: { namespace?: string; name: string } }): string {
  return `${object.metadata.namespace ?? ''}/${object.metadata.name}`;
}

/** Objects of a kind. */
export class Objects extends Followed {
  items = $state.raw<KubeObject[]>([]);
  private known = new Map<string, KubeObject>();

  /** Where an order is given those that it puts first are kept; otherwise the first by name. */
  constructor(
    path: string,
    private readonly limit = 0,
    private readonly order?: (one: KubeObject, other: KubeObject) => number,
  ) {
    super(path);
  }

  protected async read(signal: AbortSignal): Promise<string> {
    const mark = this.path.includes('?') ? '&' : '?';
    const path = this.limit ? `${this.path}${mark}limit=${this.limit}` : this.path;
    this.known = new Map();
    let revision = '';
    let more = '';
    do {
      const next = more ? `&continue=${encodeURIComponent(more)}` : '';
      const list = await request(path + next, { signal });
      for (const item of list.items ?? []) this.put(item);
      revision = list.metadata?.resourceVersion ?? '';
      more = this.order ? (list.metadata?.continue ?? '') : '';
      this.show();
    } while (more && !signal.aborted);
    return revision;
  }

  private put(item: KubeObject) {
    delete item.metadata.managedFields;
    this.known.set(key(item), item);
  }

  protected async follow(revision: string, signal: AbortSignal): Promise<string> {
    let last = revision;
    for await (const event of watch<KubeObject>(this.path, revision, this.watched(signal))) {
      last = event.object.metadata.resourceVersion;
      if (event.type === 'DELETED') this.known.delete(key(event.object));
      else if (event.type !== 'BOOKMARK') this.put(event.object);
      if (event.type !== 'BOOKMARK') this.changed();
    }
    return last;
  }

  protected show() {
    if (this.order && this.known.size > this.limit) {
      const kept = [...this.known.values()].sort(this.order).slice(0, this.limit);
      this.known = new Map(kept.map((item) => [key(item), item]));
    }
    this.items = [...this.known.values()];
  }
}

/** One object. */
export class One extends Followed {
  value = $state.raw<KubeObject | undefined>();
  isGone = $state(false);
  private next: KubeObject | undefined;

  /** Told of every form that the object had, none left out. */
  constructor(
    collection: string,
    private readonly name: string,
    private readonly seen: (object: KubeObject) => void = () => undefined,
  ) {
    super(collection);
  }

  protected async read(signal: AbortSignal): Promise<string> {
    const path = `${this.path}/${encodeURIComponent(this.name)}`;
    this.put(await request<KubeObject>(path, { signal }));
    this.show();
    return this.next?.metadata.resourceVersion ?? '';
  }

  private put(object: KubeObject) {
    delete object.metadata.managedFields;
    this.next = object;
    this.isGone = false;
    this.seen(object);
  }

  protected async follow(revision: string, signal: AbortSignal): Promise<string> {
    const path = `${this.path}?fieldSelector=metadata.name%3D${encodeURIComponent(this.name)}`;
    let last = revision;
    for await (const event of watch<KubeObject>(path, revision, this.watched(signal))) {
      last = event.object.metadata.resourceVersion;
      if (event.type === 'BOOKMARK') continue;
      this.put(event.object);
      if (event.type === 'DELETED') this.isGone = true;
      this.changed();
    }
    return last;
  }

  protected show() {
    this.value = this.next;
  }
}

export interface Shown extends Row {
  key: string;
  /** When it last changed while the page was open; 0 is before that. */
  changed: number;
}

/** A kind as the server puts it into columns. */
export class Rows extends Followed {
  columns = $state.raw<Column[]>([]);
  rows = $state.raw<Shown[]>([]);
  /** How many the server says are still to come. */
  missing = $state(0);
  private known = new Map<string, Shown>();

  /** With computed columns the objects are read too. */
  constructor(
    path: string,
    private readonly computed?: Computed[],
  ) {
    super(path);
    if (computed) this.columns = computed;
  }

  private get included(): string {
    return `includeObject=${this.computed ? 'Object' : 'Metadata'}`;
  }

  protected async read(signal: AbortSignal): Promise<string> {
    this.known = new Map();
    let revision = '';
    let more = '';
    do {
      const mark = this.path.includes('?') ? '&' : '?';
      const from = more ? `&continue=${encodeURIComponent(more)}` : '';
      const path = `${this.path}${mark}limit=${PAGE_ROWS}&${this.included}${from}`;
      const page = await table(path, { signal });
      this.take(page, 0);
      revision = page.metadata.resourceVersion;
      more = page.metadata.continue ?? '';
      this.missing = more ? (page.metadata.remainingItemCount ?? 0) : 0;
      this.show();
    } while (more && !signal.aborted);
    return revision;
  }

  private take(page: Table, changed: number, isDeleted = false) {
    if (page.columnDefinitions?.length && !this.computed) this.columns = page.columnDefinitions;
    for (const row of page.rows ?? []) {
      const name = key(row.object);
      delete row.object.metadata.managedFields;
      if (this.computed) row.cells = this.computed.map(({ cell }) => cell(row.object as KubeObject));
      if (isDeleted) this.known.delete(name);
      else this.known.set(name, { ...row, key: name, changed });
    }
  }

  protected async follow(revision: string, signal: AbortSignal): Promise<string> {
    let last = revision;
    const mark = this.path.includes('?') ? '&' : '?';
    const path = `${this.path}${mark}${this.included}`;
    const asked = { isTable: true, ...this.watched(signal) };
    for await (const event of watch<Table>(path, revision, asked)) {
      const row = event.object.rows?.[0];
      const seen = row?.object.metadata.resourceVersion ?? event.object.metadata?.resourceVersion;
      last = seen || last;
      if (event.type === 'BOOKMARK') continue;
      this.take(event.object, performance.now(), event.type === 'DELETED');
      this.changed();
    }
    return last;
  }

  protected show() {
    this.rows = [...this.known.values()];
  }
}

/** The present, for ages; it moves once a second. Of the past it is the moment that is shown. */
class Now {
  private ticking = $state(Date.now());
  /** When the moment was that the page shows, once that is known. */
  past = $state(0);

  constructor() {
    setInterval(() => (this.ticking = Date.now()), 1_000);
  }

  get value(): number {
    return route.at && this.past ? this.past : this.ticking;
  }
}

export const now = new Now();
