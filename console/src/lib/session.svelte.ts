// Who is signed in. The token is kept by this tab alone and sent on purpose, never by the browser
// itself: see `crates/apiserver/src/console/sessions.rs` for why it is not a cookie.

import { Failure, request } from './api';
import { toasts } from './toasts.svelte';

const KEY = 'setpoint.token';
/** How often, and after what, a server that does not answer is asked again. */
const RESUME_MAX = 10;
const RESUME_MILLISECONDS = 500;

class Session {
  token = $state(sessionStorage.getItem(KEY) ?? '');
  user = $state('');
  groups = $state.raw<string[]>([]);
  /** Whether it is still being found out. */
  isBeginning = $state(true);
  problem = $state('');
  private isUnanswered = false;

  keep(token: string) {
    this.token = token;
    if (token) sessionStorage.setItem(KEY, token);
    else sessionStorage.removeItem(KEY);
  }

  /** At the start: exchanges a code of the address, and tries the token that the tab has. */
  async begin() {
    await this.exchange();
    if (this.token) await this.resume();
    this.isBeginning = false;
  }

  /** A sign-in link that is opened in a tab of the console changes only the fragment of the address. */
  async follow() {
    if (!(await this.exchange())) return;
    // Lists and kinds were read as another user.
    location.reload();
  }

  /** Exchanges a code of the address for a session; returns whether that worked. */
  private async exchange(): Promise<boolean> {
    const code = new URLSearchParams(location.hash.slice(1)).get('code');
    if (!code) return false;
    // The code must not stay in the address, which users share.
    history.replaceState(null, '', location.pathname + location.search);
    try {
      const given = await request<{ token: string }>('/console/session', {
        method: 'POST',
        body: JSON.stringify({ code }),
        isSignIn: true,
      });
      this.keep(given.token);
      return true;
    } catch {
      this.problem = 'This link was used already or has expired. Run `setpoint ui` for another one.';
      if (this.user) toasts.say('bad', this.problem);
      return false;
    }
  }

  /** A page that is opened while the server is away for a moment waits for it. */
  private async resume() {
    for (let tries = 1; tries <= RESUME_MAX; tries += 1) {
      if ((await this.signIn(this.token)) || !this.isUnanswered) return;
      await new Promise((resolve) => setTimeout(resolve, RESUME_MILLISECONDS));
    }
  }

  /** Tries a token; tells whether it is believed. */
  async signIn(token: string): Promise<boolean> {
    this.keep(token);
    this.isUnanswered = false;
    try {
      const review = await request<Review>('/apis/authentication.k8s.io/v1/selfsubjectreviews', {
        method: 'POST',
        body: JSON.stringify({ kind: 'SelfSubjectReview', apiVersion: 'authentication.k8s.io/v1' }),
        isSignIn: true,
      });
      const info = review.status?.userInfo ?? {};
      this.user = info.username ?? '';
      this.groups = info.groups ?? [];
      this.problem = '';
      return true;
    } catch (error) {
      const refused = error instanceof Failure && error.code === 401;
      this.isUnanswered = error instanceof Failure && error.code === 0;
      // A server that does not answer may believe it later.
      if (refused) this.keep('');
      const said = error instanceof Error ? error.message : String(error);
      this.problem ||= refused ? 'The server does not accept this token.' : said;
      return false;
    }
  }

  /** The server does not believe us any longer. */
  lose() {
    this.user = '';
    this.problem = 'Your session has expired. Sign in again.';
    this.keep('');
  }

  async signOut() {
    const isSession = this.token.startsWith('setpoint-console-');
    if (isSession) {
      const asked = request('/console/session', { method: 'DELETE', isSignIn: true });
      await asked.catch(() => undefined);
    }
    this.user = '';
    this.problem = '';
    this.keep('');
  }
}

interface Review {
  status?: { userInfo?: { username?: string; groups?: string[] } };
}

export const session = new Session();
