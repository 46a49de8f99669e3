"use strict";

// How numbers, times and durations are written.

const DAY = 86400;
const MINUS = "−";
const NONE = "–";

const plain = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const oneDigit = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });
const twoDigits = new Intl.NumberFormat("en", { maximumSignificantDigits: 2 });

// A count, or a mean of counts: 12,345 or 8.4 or 0.031.
function numberText(value) {
  if (value === null || value === undefined || !Number.isFinite(value)) return NONE;
  const size = Math.abs(value);
  if (size >= 100 || Number.isInteger(value)) return plain.format(value).replace("-", MINUS);
  return (size >= 1 ? oneDigit : twoDigits).format(value).replace("-", MINUS);
}

function plural(number, one, many = `${one}s`) {
  return `${numberText(number)} ${number === 1 ? one : many}`;
}

// A probability with two digits that tell: 0.87, 0.031, 0.0004.
function chanceText(p) {
  if (p === null || p === undefined) return NONE;
  if (p >= 0.995) return p === 1 ? "1" : "> 0.99";
  if (p > 0 && p < 0.0001) return "< 0.0001";
  return p >= 0.1 || p === 0 ? p.toFixed(2) : String(Number(p.toPrecision(2)));
}

const UNITS = [
  [1 / 86400, "second"],
  [1 / 1440, "minute"],
  [1 / 24, "hour"],
  [1, "day"],
  [30.44, "month"],
  [365.25, "year"],
];

// A duration in days as people say it: 5 hours, 12 days, 4 months, 2.5 years.
function durationText(days) {
  if (days === null || days === undefined || !Number.isFinite(days)) return NONE;
  const place = days < 1 / 1440 ? 0 : days < 1 / 24 ? 1 : days < 2 ? 2 : days < 60 ? 3 : days < 730 ? 4 : 5;
  const [size, unit] = UNITS[place];
  const value = days / size;
  const shown = value < 9.95 && unit !== "second" ? Number(value.toFixed(1)) : Math.round(value);
  return plural(shown, unit);
}

function everyText(ratePerDay) {
  if (ratePerDay === null || ratePerDay === undefined) return NONE;
  return ratePerDay > 0 ? `every ${durationText(1 / ratePerDay)}` : "never";
}

function agoText(seconds, now) {
  if (!seconds) return "never";
  const days = (now - seconds) / DAY;
  if (days < -1 / 1440) return `in ${durationText(-days)}`;
  return days < 1 / 1440 ? "just now" : `${durationText(days)} ago`;
}

const dayFormat = new Intl.DateTimeFormat("en-GB", {
  day: "numeric", month: "short", year: "numeric", timeZone: "UTC",
});
const timeFormat = new Intl.DateTimeFormat("en-GB", {
  hour: "2-digit", minute: "2-digit", timeZone: "UTC",
});

function dayText(seconds) {
  return seconds ? dayFormat.format(seconds * 1000) : "never";
}

function momentText(seconds) {
  return seconds ? `${dayText(seconds)}, ${timeFormat.format(seconds * 1000)}` : "never";
}

const hereFormat = new Intl.DateTimeFormat("en-GB", {
  day: "numeric", month: "short", year: "numeric", hour: "2-digit", minute: "2-digit",
});
const ZONE = hereFormat.resolvedOptions().timeZone ?? "local";
const IS_UTC = /^(UTC|GMT|Etc\/(UTC|GMT|UCT|Universal|Zulu))$/.test(ZONE);

// The same moment by the reader's own clock.
function hereText(seconds) {
  return seconds ? hereFormat.format(seconds * 1000) : "never";
}

function bothText(seconds) {
  return IS_UTC || !seconds ? `${momentText(seconds)}${seconds ? " UTC" : ""}` : `${momentText(seconds)} UTC, ${hereText(seconds)} in ${ZONE}`;
}

function isoText(seconds) {
  return seconds ? new Date(seconds * 1000).toISOString().slice(0, 19) + "Z" : "";
}

function sizeText(bytes) {
  if (bytes === null || bytes === undefined) return NONE;
  const units = ["bytes", "KB", "MB", "GB", "TB"];
  let place = 0;
  let value = bytes;
  while (value >= 1000 && place < units.length - 1) [value, place] = [value / 1000, place + 1];
  return `${place === 0 ? plain.format(value) : numberText(Number(value.toPrecision(3)))} ${units[place]}`;
}

function percentText(share) {
  return share === null || !Number.isFinite(share) ? NONE : `${numberText(Number((100 * share).toPrecision(2)))} %`;
}
