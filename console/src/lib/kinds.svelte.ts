// What the server serves, by its own discovery: groups, versions, and the verbs that they know.

import { Failure, metadata, request, type Json } from './api';

const DISCOVERY = 'application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList';

/** How long to wait for a server that does not answer. */
const AGAIN_MILLISECONDS = 1_000;

export interface Kind {
  group: string;
  version: string;
  resource: string;
  kind: string;
  isNamespaced: boolean;
  verbs: string[];
  shortNames: string[];
  subresources: string[];
}

class Kinds {
  all = $state.raw<Kind[]>([]);
  groups = $state.raw<string[]>([]);
  namespaces = $state.raw<string[]>([]);
  isKnown = $state(false);

  /** Until it is known: without it no page knows what there is. */
  async begin() {
    while (!this.isKnown) {
      try {
        await this.load();
      } catch (error) {
        const isUnanswered = error instanceof Failure && error.code === 0;
        if (!isUnanswered) return;
        await new Promise((resolve) => setTimeout(resolve, AGAIN_MILLISECONDS));
      }
    }
  }

  async load() {
    const ask = (path: string) => request(path, { accept: DISCOVERY, isLive: true });
    const [core, groups] = await Promise.all([ask('/api'), ask('/apis')]);
    const all: Kind[] = [];
    for (const group of [...(core.items ?? []), ...(groups.items ?? [])]) {
      // A group may serve some kinds in one version and others in the next: the first that has one.
      const known = new Set<string>();
      for (const version of group.versions ?? []) {
        for (const one of version.resources ?? []) {
          if (known.has(one.resource)) continue;
          known.add(one.resource);
          all.push(read(group.metadata?.name ?? '', version.version, one));
        }
      }
    }
    this.all = all.filter((kind) => kind.verbs.includes('list'));
    this.groups = (groups.items ?? []).map((group: Json) => group.metadata?.name ?? '');
    this.isKnown = true;
    await this.loadNamespaces();
  }

  async loadNamespaces() {
    try {
      const found = await metadata('/api/v1/namespaces');
      this.namespaces = found.map((one) => one.metadata.name).sort();
    } catch {
      this.namespaces = [];
    }
  }

  find(group: string, resource: string): Kind | undefined {
    return this.all.find((kind) => kind.group === group && kind.resource === resource);
  }

  /** By what objects say of themselves. */
  named(apiVersion: string, name: string): Kind | undefined {
    const group = apiVersion.includes('/') ? apiVersion.split('/')[0] : '';
    return this.all.find((kind) => kind.group === group && kind.kind === name);
  }
}

function read(group: string, version: string, one: Json): Kind {
  return {
    group,
    version,
    resource: one.resource,
    kind: one.responseKind?.kind ?? one.resource,
    isNamespaced: one.scope === 'Namespaced',
    verbs: one.verbs ?? [],
    shortNames: one.shortNames ?? [],
    subresources: (one.subresources ?? []).map((part: Json) => part.subresource),
  };
}

export const kinds = new Kinds();

type Place = Pick<Kind, 'group' | 'version' | 'resource'>;

/** The path of a kind's objects; of one namespace or of all. */
export function collection(kind: Place, namespace = ''): string {
  const root = kind.group ? `/apis/${kind.group}/${kind.version}` : `/api/${kind.version}`;
  const place = namespace ? `/namespaces/${encodeURIComponent(namespace)}` : '';
  return `${root}${place}/${kind.resource}`;
}

export function objectPath(kind: Place, namespace: string, name: string): string {
  return `${collection(kind, namespace)}/${encodeURIComponent(name)}`;
}

/** As one would type it: `deployments.apps`, but `pods`. */
export function typed(kind: Place): string {
  const isPlain = !kind.group || ['apps', 'batch'].includes(kind.group);
  return isPlain ? kind.resource : `${kind.resource}.${kind.group}`;
}
