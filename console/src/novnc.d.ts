// What is used of noVNC, which brings no types of its own.

declare module '@novnc/novnc' {
  export default class RFB extends EventTarget {
    constructor(target: HTMLElement, url: string, options?: { wsProtocols?: string[] });
    scaleViewport: boolean;
    background: string;
    disconnect(): void;
  }
}
