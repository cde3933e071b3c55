// Writes objects as YAML, as people expect to read them. Only what JSON can say is written.

import type { Json } from './api';

const PLAIN = /^[A-Za-z_./][A-Za-z0-9_./@%+-]*( [A-Za-z0-9_./@%+-]+)*$/;
const WORDS = /^(true|false|null|yes|no|on|off|y|n|~)$/i;
const ODD = /[\u007f-\u009f\u2028\u2029\ufeff]/g;
const NUMBER = /^[-+.]?(\d|inf|nan|0x|0o)/i;

function escaped(character: string): string {
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`;
}

function scalar(value: Json): string {
  if (typeof value !== 'string') return JSON.stringify(value) ?? 'null';
  if (PLAIN.test(value) && !WORDS.test(value) && !NUMBER.test(value)) return value;
  // JSON leaves breaks of lines and controls as they are that YAML does not.
  return JSON.stringify(value).replace(ODD, escaped);
}

function isEmpty(value: Json): boolean {
  return typeof value === 'object' && value !== null && Object.keys(value).length === 0;
}

function block(text: string, indent: string): string[] {
  const keep = text.endsWith('\n') ? '' : '-';
  const body = text.replace(/\n$/, '').split('\n');
  return [`|${keep}`, ...body.map((line) => (line ? indent + line : ''))];
}

function isBlock(value: Json): value is string {
  // Lines that begin with a space, or end in several breaks, would need marks that few can read.
  return typeof value === 'string' && /\n/.test(value) && !/^\s|\n\n$|[\r\t]/.test(value) && value.search(ODD) < 0;
}

function write(value: Json, indent: string): string[] {
  if (typeof value !== 'object' || value === null) return [scalar(value)];
  if (isEmpty(value)) return [Array.isArray(value) ? '[]' : '{}'];
  const lines: string[] = [];
  if (Array.isArray(value)) {
    for (const item of value) {
      const [first = '', ...rest] = isBlock(item)
        ? block(item, indent + '  ')
        : write(item, indent + '  ');
      lines.push(`${indent}- ${first.trimStart()}`, ...rest);
    }
    return lines;
  }
  for (const [key, item] of Object.entries(value)) {
    const name = `${indent}${scalar(key)}:`;
    if (isBlock(item)) {
      const [mark, ...rest] = block(item, indent + '  ');
      lines.push(`${name} ${mark}`, ...rest);
    } else if (typeof item === 'object' && item !== null && !isEmpty(item)) {
      lines.push(name, ...write(item, Array.isArray(item) ? indent : indent + '  '));
    } else {
      lines.push(`${name} ${write(item, '')[0]}`);
    }
  }
  return lines;
}

export function yaml(value: Json): string {
  return write(value, '').join('\n') + '\n';
}
