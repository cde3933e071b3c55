// Asks the API server. Where the page shows the past, reads are answered as they were then.

import { connection } from './connection.svelte';
import { route } from './route.svelte';
import { session } from './session.svelte';

export const HISTORY = '/apis/history.setpoint.dev/v1';
const TABLE = 'application/json;as=Table;g=meta.k8s.io;v=v1,application/json';
const METADATA =
  'application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json';

/* eslint-disable-next-line -- objects of the API have the shape that their kind gives them */
export type Json = any;

export interface Condition {
  type: string;
  status: string;
  reason?: string;
  message?: string;
  lastTransitionTime?: string;
}

export interface Meta {
  name: string;
  namespace?: string;
  uid: string;
  resourceVersion: string;
  creationTimestamp: string;
  deletionTimestamp?: string;
  generation?: number;
  labels?: Record<string, string>;
  annotations?: Record<string, string>;
  ownerReferences?: { apiVersion: string; kind: string; name: string; uid: string }[];
  managedFields?: unknown;
}

export interface KubeObject {
  apiVersion: string;
  kind: string;
  metadata: Meta;
  spec?: Json;
  status?: Json;
  [field: string]: Json;
}

export interface Column {
  name: string;
  type: string;
  priority: number;
  description?: string;
}

export interface Row {
  cells: Json[];
  object: { metadata: Meta };
}

export interface Table {
  columnDefinitions?: Column[];
  rows?: Row[];
  metadata: { resourceVersion: string; continue?: string; remainingItemCount?: number };
}

/** The server said no, in its own words. */
export class Failure extends Error {
  constructor(
    readonly code: number,
    message: string,
    readonly reason = '',
  ) {
    super(message);
  }
}

export interface Asked {
  method?: string;
  body?: string;
  type?: string;
  accept?: string;
  signal?: AbortSignal;
  /** Of the present, whatever the page shows. */
  isLive?: boolean;
  /** A refusal is not the end of the session. */
  isSignIn?: boolean;
}

/** The path that answers as of the moment that the page shows. */
export function then(path: string, at = route.at): string {
  return at ? `${HISTORY}/at/${encodeURIComponent(at)}${path}` : path;
}

/** A question about the past of an object; of the moment that the page shows, not of what came after. */
export function question(
  what: 'events' | 'revisions' | 'why',
  path: string,
  options: Record<string, string> = {},
): string {
  const query = new URLSearchParams(route.at ? { ...options, at: route.at } : options).toString();
  return `${HISTORY}/${what}${path}${query ? `?${query}` : ''}`;
}

/** How long to wait before a read that nobody answered is tried once more. */
const AGAIN_MILLISECONDS = 250;

/** Browsers give up what they ask for when the machine's network changes, as it does with every pod. */
async function fetchTwice(address: string, given: RequestInit): Promise<Response> {
  try {
    return await fetch(address, given);
  } catch (error) {
    if (given.method !== 'GET' || given.signal?.aborted) throw error;
    await new Promise((resolve) => setTimeout(resolve, AGAIN_MILLISECONDS));
    return fetch(address, given);
  }
}

export async function open(path: string, asked: Asked = {}): Promise<Response> {
  const method = asked.method ?? 'GET';
  const isRead = method === 'GET' && !asked.isLive && !asked.isSignIn;
  const headers: Record<string, string> = { accept: asked.accept ?? 'application/json' };
  if (session.token) headers.authorization = `Bearer ${session.token}`;
  if (asked.body !== undefined) headers['content-type'] = asked.type ?? 'application/json';
  const { body, signal } = asked;
  const address = isRead && !path.startsWith(HISTORY) ? then(path) : path;
  const given = { method, headers, body, signal, credentials: 'omit' as const };
  const response = await fetchTwice(address, given).catch((error: unknown) => {
    if (signal?.aborted) throw error;
    connection.lost();
    // What the browser says of it is of no use to anybody.
    throw new Failure(0, 'The server does not answer.');
  });
  connection.back();
  if (response.ok) return response;
  const text = await response.text();
  if (response.status === 401 && !asked.isSignIn) session.lose();
  let status: { message?: string; reason?: string } = {};
  try {
    status = JSON.parse(text);
  } catch {
    status = { message: text.trim() };
  }
  const said = status.message || `the server answered ${response.status}`;
  throw new Failure(response.status, said, status.reason);
}

export async function request<T = Json>(path: string, asked: Asked = {}): Promise<T> {
  const response = await open(path, asked);
  return (await response.json()) as T;
}

export async function text(path: string, asked: Asked = {}): Promise<string> {
  return (await open(path, { accept: '*/*', ...asked })).text();
}

export function table(path: string, asked: Asked = {}): Promise<Table> {
  return request<Table>(path, { ...asked, accept: TABLE });
}

/** The metadata of a list's objects: little enough to ask for many. */
export async function metadata(path: string, signal?: AbortSignal): Promise<KubeObject[]> {
  const list = await request(path, { accept: METADATA, signal });
  return list.items ?? [];
}

export interface Event<T> {
  type: 'ADDED' | 'MODIFIED' | 'DELETED' | 'BOOKMARK' | 'ERROR';
  object: T;
}

export interface Watched {
  isTable?: boolean;
  signal?: AbortSignal;
  /** Called when the server has agreed to it. */
  begun?: () => void;
}

/** The server sends a bookmark every minute: who hears nothing for longer is not connected. */
const SILENCE_MILLISECONDS = 75_000;

/** The events of a watch, until it ends. */
export async function* watch<T>(
  path: string,
  revision: string,
  { isTable = false, signal, begun }: Watched = {},
): AsyncGenerator<Event<T>> {
  const mark = path.includes('?') ? '&' : '?';
  const query = `watch=true&allowWatchBookmarks=true&resourceVersion=${revision}`;
  const accept = isTable ? TABLE : undefined;
  const ending = new AbortController();
  const end = () => ending.abort();
  signal?.addEventListener('abort', end, { once: true });
  let timer = setTimeout(end, SILENCE_MILLISECONDS);
  try {
    const asked = { accept, signal: ending.signal, isLive: true };
    const response = await open(`${path}${mark}${query}`, asked);
    begun?.();
    for await (const line of lines(response, ending.signal)) {
      clearTimeout(timer);
      timer = setTimeout(end, SILENCE_MILLISECONDS);
      const event = JSON.parse(line) as Event<T & { code?: number; message?: string }>;
      if (event.type === 'ERROR') {
        throw new Failure(event.object.code ?? 500, event.object.message ?? 'the watch ended');
      }
      yield event;
    }
  } catch (error) {
    if (!ending.signal.aborted || signal?.aborted) throw error;
    throw new Failure(0, 'The server fell silent.');
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener('abort', end);
  }
}

/** The lines of an answer, as they come. */
export async function* lines(response: Response, signal?: AbortSignal): AsyncGenerator<string> {
  const reader = response.body?.getReader();
  if (!reader) return;
  const decoder = new TextDecoder();
  let rest = '';
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done || signal?.aborted) break;
      rest += decoder.decode(value, { stream: true });
      const whole = rest.split('\n');
      rest = whole.pop() ?? '';
      for (const line of whole) if (line) yield line;
    }
    if (rest) yield rest;
  } finally {
    void reader.cancel().catch(() => undefined);
  }
}

/** A WebSocket that is signed in: browsers can say a token only as the name of a protocol. */
export function socketProtocols(): string[] {
  const bytes = new TextEncoder().encode(session.token);
  const encoded = btoa(String.fromCharCode(...bytes));
  const safe = encoded.replace(/\+/g, '-').replace(/\//g, '_').replace(/=+$/, '');
  return ['plain.kubevirt.io', `base64url.bearer.authorization.k8s.io.${safe}`];
}

/** Why a socket was refused: browsers do not say, but the same address says it to who asks plainly. */
export async function refusalOf(path: string): Promise<string> {
  try {
    await open(path, { isLive: true, accept: '*/*' });
  } catch (error) {
    if (error instanceof Failure && [403, 404].includes(error.code)) return error.message;
  }
  return '';
}

export function socketAddress(path: string): string {
  return `${location.protocol === 'https:' ? 'wss' : 'ws'}://${location.host}${path}`;
}

export function patch(path: string, body: unknown, type = 'merge'): Promise<KubeObject> {
  const kind = `application/${type}-patch+json`;
  const query = path.includes('?') ? '&' : '?';
  const address = `${path}${query}fieldManager=setpoint-console`;
  return request(address, { method: 'PATCH', body: JSON.stringify(body), type: kind });
}
