// Whether the server answers. What a page shows is as old as its last answer.

class Connection {
  /** Whether the last question was not answered. */
  isLost = $state(false);
  /** Since when. */
  since = $state(0);

  lost() {
    if (!this.isLost) this.since = Date.now();
    this.isLost = true;
  }

  back() {
    this.isLost = false;
  }
}

export const connection = new Connection();
