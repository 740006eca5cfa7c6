// What the Node programs have in common: stories are read, steps taken one after the other, what was seen is printed.
'use strict'

const { readFileSync } = require('node:fs')

/** For anything that is waited for in a step, in ms. */
const PATIENCE = 30_000

/** What the client does not have, in a sentence. */
class NotOffered extends Error {}

const sleep = ms => new Promise(resolve => setTimeout(resolve, ms))

/** Polls for what the other side gives no notice of; whether it came. */
async function waitUntil(condition) {
  for (const ends = Date.now() + PATIENCE; !(await condition()); await sleep(10)) {
    if (Date.now() > ends) return false
  }
  return true
}

/** What a promise gives, or an error when patience ends. */
function inTime(promise, what) {
  let timer
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`timed out: ${what}`)), PATIENCE)
  })
  return Promise.race([promise, late]).finally(() => clearTimeout(timer))
}

/** A key or a value of the list. */
function written(text) {
  if (text === undefined) return null
  return typeof text === 'object' ? text.of.repeat(text.times) : text
}

/** As the list writes it. */
function shown(value) {
  if (value === null || value === undefined) return null
  const text = value.toString()
  const long = text.length > 200 && new Set(text).size === 1
  return long ? { of: text[0], times: text.length } : text
}

const streamed = number => String(number).padStart(100, '0')

/** A member of a group; what it owns and has read. */
class Member {
  owned = new Set()
  values = new Set()
  taken = 0

  assigned(partitions) {
    for (const one of partitions) this.owned.add(one)
  }

  revoked(partitions) {
    for (const one of partitions) if (this.owned.delete(one)) this.taken++
  }
}

/** Takes the steps of one story; those that are alike for all are here, the others are methods of the same name. */
class Teller {
  members = new Map()

  /** Gives up whatever the story left open. */
  async close() {
    for (const member of this.members.values()) await this.leaveOnce(member)
  }

  async leaveOnce(member) {
    if (member.left) return
    member.left = true
    await member.leave()
  }

  async join({ member, ...settings }) {
    this.members.set(member, await this.member(settings))
  }

  async owned({ members }) {
    const found = {}
    const came = await waitUntil(() => {
      for (const name of Object.keys(members)) found[name] = this.members.get(name).owned.size
      return Object.entries(members).every(([name, count]) => found[name] === count)
    })
    if (!came) throw new Error(`they own ${JSON.stringify(found)}`)
    return found
  }

  async taken({ member }) {
    const one = this.members.get(member)
    const number = one.taken
    one.taken = 0
    return number
  }

  async seen({ count }) {
    const values = new Set()
    await waitUntil(() => {
      for (const member of this.members.values()) for (const value of member.values) values.add(value)
      return values.size >= count
    })
    return values.size
  }

  async leave({ member }) {
    await this.leaveOnce(this.members.get(member))
  }
}

/** What a step gives, or undefined where it fails. */
async function tried(teller, kind, step) {
  try {
    return await inTime(teller[kind](step), kind)
  } catch (error) {
    if (error instanceof NotOffered) throw error
  }
}

/** What was seen at each step, up to the first that is refused unexpectedly. */
async function tell(teller, steps) {
  const observed = []
  for (const { do: kind, gives, eventually, ...step } of steps) {
    try {
      if (!teller[kind]) throw new NotOffered(`no ${kind}`)
      if (eventually) await waitUntil(async () => (await tried(teller, kind, step)) === gives)
      observed.push((await inTime(teller[kind](step), kind)) ?? null)
    } catch (error) {
      if (error instanceof NotOffered) return { 'not offered': error.message }
      observed.push({ error: `${error.name}: ${error.type ?? error.code ?? ''} ${error.message}` })
      if (!gives?.error) break
    }
  }
  return { observed }
}

async function main(makeTeller) {
  for (const story of JSON.parse(readFileSync(process.argv[2]))) {
    const teller = makeTeller(story.at)
    const told = await tell(teller, story.steps)
    await inTime(teller.close(), 'close').catch(() => {})
    process.stdout.write(JSON.stringify({ story: story.name, ...told }) + '\n')
  }
  process.exit(0)
}

module.exports = { Member, NotOffered, Teller, inTime, main, shown, streamed, waitUntil, written }
