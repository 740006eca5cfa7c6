// KafkaJS in the stories.
'use strict'

const { readFileSync } = require('node:fs')
const { randomUUID } = require('node:crypto')
const { CompressionCodecs, CompressionTypes, Kafka, PartitionAssigners, logLevel } = require('kafkajs')
const { Member, NotOffered, Teller, inTime, main, shown, streamed, written } = require('../stories.js')

CompressionCodecs[CompressionTypes.Snappy] = require('kafkajs-snappy')

const CODECS = { none: CompressionTypes.None, gzip: CompressionTypes.GZIP, snappy: CompressionTypes.Snappy }
const TOPIC = 2

function headersOf(record) {
  const headers = {}
  for (const [name, value = null] of record.headers ?? []) {
    if (value === null) throw new NotOffered('it takes no header that is null')
    headers[name] = name in headers ? [headers[name], value].flat() : value
  }
  return headers
}

/** As the list writes it. */
function wholeRecord({ key, value, headers }) {
  const told = Object.entries(headers ?? {}).flatMap(([name, one]) =>
    [one].flat().map(content => (content === null ? [name] : [name, content.toString()]))
  )
  return { key: shown(key), value: shown(value), headers: told }
}

class KafkaJSTeller extends Teller {
  producers = new Map()

  constructor(at) {
    super()
    this.settings = {
      brokers: [at.bootstrap],
      logLevel: logLevel.NOTHING,
      retry: { initialRetryTime: 50, maxRetryTime: 500, retries: 20 },
    }
    if (at.mechanism) {
      this.settings.ssl = { ca: [readFileSync(at.authority)] }
      this.settings.sasl = { mechanism: at.mechanism.toLowerCase(), username: at.user, password: at.password }
    }
    this.kafka = new Kafka(this.settings)
  }

  async close() {
    await super.close()
    for (const { producer } of this.producers.values()) await producer.disconnect()
  }

  /** Written by a producer of its own. */
  async write(producer, work) {
    await producer.connect()
    try {
      return await work()
    } finally {
      await producer.disconnect()
    }
  }

  async produce({ topic, records, codec = 'none', acks = 'all' }) {
    if (!(codec in CODECS)) throw new NotOffered(`its codec for ${codec} is another package, of native code`)
    const messages = records.map(record => ({
      key: written(record.key),
      value: written(record.value),
      headers: headersOf(record),
      partition: 0,
    }))
    const producer = this.kafka.producer({ allowAutoTopicCreation: true })
    const sent = { topic, messages, compression: CODECS[codec], acks: acks === 'all' ? -1 : Number(acks) }
    const told = await this.write(producer, () => producer.send(sent))
    return told?.length ? messages.map((_, number) => Number(told[0].baseOffset) + number) : null
  }

  async stream({ topic, count }) {
    const producer = this.kafka.producer({ idempotent: true, maxInFlightRequests: 1 })
    await this.write(producer, async () => {
      for (let first = 0; first < count; first += 50) {
        const messages = Array.from({ length: 50 }, (_, number) => ({ value: streamed(first + number), partition: 0 }))
        await producer.send({ topic, messages })
      }
    })
    return count
  }

  async press({ topic, client_id, count, size }) {
    const producer = new Kafka({ ...this.settings, clientId: client_id }).producer()
    await this.write(producer, async () => {
      for (let sent = 0; sent < count; sent += 10) {
        const messages = Array.from({ length: 10 }, () => ({ value: 'x'.repeat(size), partition: 0 }))
        await producer.send({ topic, messages })
      }
    })
    return { acknowledged: count, throttled: null }
  }

  /** Runs a consumer up to "end"; `within` may do more while it runs. */
  async upToTheEnd(consumer, topic, { from, within = async () => {} }) {
    const found = []
    let failed
    const ended = new Promise((resolve, reject) => {
      failed = reject
      consumer.on(consumer.events.CRASH, ({ payload }) => reject(payload.error))
      this.ending = message => (message.value?.toString() === 'end' ? resolve(message) : found.push(message))
    })
    try {
      await consumer.connect()
      await consumer.subscribe({ topics: [topic], fromBeginning: true })
      consumer.run({ autoCommit: false, eachMessage: async ({ message }) => this.ending(message) }).catch(failed)
      if (from) consumer.seek({ topic, partition: 0, offset: String(from) })
      const last = await inTime(ended, `no end behind ${found.length} records`)
      await within(last)
    } finally {
      await consumer.disconnect()
    }
    return found
  }

  async read({ topic, from = 0, committed = false, whole = false }) {
    const groupId = `may-${randomUUID()}`
    const consumer = this.kafka.consumer({ groupId, readUncommitted: !committed, maxWaitTimeInMs: 100 })
    const found = await this.upToTheEnd(consumer, topic, { from })
    return found.map(message => (whole ? wholeRecord(message) : shown(message.value)))
  }

  async resume({ group, topic }) {
    const consumer = this.kafka.consumer({ groupId: group, maxWaitTimeInMs: 100 })
    const found = await this.upToTheEnd(consumer, topic, {
      within: last => consumer.commitOffsets([{ topic, partition: 0, offset: String(Number(last.offset) + 1) }]),
    })
    return found.map(message => shown(message.value))
  }

  async member({ group, topic, strategy, instance }) {
    if (instance) throw new NotOffered('no static members')
    if (strategy !== 'roundrobin') throw new NotOffered(`no assigner ${strategy}`)
    const member = new Member()
    const consumer = this.kafka.consumer({
      groupId: group,
      heartbeatInterval: 200,
      maxWaitTimeInMs: 100,
      partitionAssigners: [PartitionAssigners.roundRobin],
    })
    consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
      member.revoked([...member.owned])
      member.assigned(payload.memberAssignment[topic] ?? [])
    })
    await consumer.connect()
    await consumer.subscribe({ topics: [topic], fromBeginning: true })
    await consumer.run({ eachMessage: async ({ message }) => member.values.add(message.value.toString()) })
    member.leave = () => consumer.disconnect()
    return member
  }

  async commit({ group, topic, offset, metadata = '' }) {
    const consumer = this.kafka.consumer({ groupId: group, maxWaitTimeInMs: 100 })
    const joined = new Promise(resolve => consumer.on(consumer.events.GROUP_JOIN, resolve))
    await consumer.connect()
    await consumer.subscribe({ topics: [topic], fromBeginning: true })
    await consumer.run({ autoCommit: false, eachMessage: async () => {} })
    // It commits to members only, and one that fetches beyond the end takes its offset back.
    consumer.pause([{ topic }])
    await joined
    await consumer.commitOffsets([{ topic, partition: 0, offset: String(offset), metadata }])
    await consumer.disconnect()
  }

  committed({ group, topic }) {
    return this.administer(async admin => {
      const [{ partitions }] = await admin.fetchOffsets({ groupId: group, topics: [topic] })
      const { offset, metadata } = partitions.find(({ partition }) => partition === 0)
      return Number(offset) < 0 ? null : { offset: Number(offset), metadata: metadata ?? '' }
    })
  }

  // Transactions.

  async open({ producer: name, transactional_id, timeout_ms = 60_000 }) {
    const producer = this.kafka.producer({
      transactionalId: transactional_id,
      transactionTimeout: timeout_ms,
      maxInFlightRequests: 1,
      idempotent: true,
    })
    this.producers.set(name, { producer })
    await producer.connect()
    // The first transaction is what initialises it.
    this.producers.get(name).next = await producer.transaction()
  }

  async begin({ producer }) {
    const one = this.producers.get(producer)
    one.transaction = one.next ?? (await one.producer.transaction())
    one.next = undefined
  }

  async send({ producer, topic, values }) {
    const messages = values.map(value => ({ value, partition: 0 }))
    await this.producers.get(producer).transaction.send({ topic, messages })
  }

  async offsets({ producer, group, topic, offset }) {
    const topics = [{ topic, partitions: [{ partition: 0, offset: String(offset) }] }]
    await this.producers.get(producer).transaction.sendOffsets({ consumerGroupId: group, topics })
  }

  async end({ producer, commit }) {
    const { transaction } = this.producers.get(producer)
    await (commit ? transaction.commit() : transaction.abort())
  }

  async finish(step) {
    await this.send(step)
    await this.end({ ...step, commit: true })
  }

  // Administration.

  async administer(work) {
    const admin = this.kafka.admin()
    await admin.connect()
    try {
      return await work(admin)
    } finally {
      await admin.disconnect()
    }
  }

  make({ topic, partitions, settings }) {
    const configEntries = Object.entries(settings).map(([name, value]) => ({ name, value }))
    const wanted = { topic, numPartitions: partitions, replicationFactor: 1, configEntries }
    return this.administer(async admin => void (await admin.createTopics({ topics: [wanted], waitForLeaders: true })))
  }

  partitions({ topic }) {
    return this.administer(async admin => {
      const { topics } = await admin.fetchTopicMetadata({ topics: [topic] })
      return topics[0].partitions.length
    })
  }

  grow({ topic, partitions }) {
    const wanted = { topicPartitions: [{ topic, count: partitions }] }
    return this.administer(async admin => void (await admin.createPartitions(wanted)))
  }

  drop({ topic }) {
    return this.administer(async admin => void (await admin.deleteTopics({ topics: [topic] })))
  }

  set({ topic, name, value }) {
    const resources = [{ type: TOPIC, name: topic, configEntries: [{ name, value }] }]
    return this.administer(async admin => void (await admin.alterConfigs({ resources, validateOnly: false })))
  }

  setting({ topic, name }) {
    const resources = [{ type: TOPIC, name: topic, configNames: [name] }]
    return this.administer(async admin => {
      const found = await admin.describeConfigs({ resources, includeSynonyms: false })
      return found.resources[0].configEntries[0].configValue
    })
  }

  bounds({ topic }) {
    return this.administer(async admin => {
      const [{ low, high }] = await admin.fetchTopicOffsets(topic)
      return [Number(low), Number(high)]
    })
  }

  trim({ topic, before }) {
    const partitions = [{ partition: 0, offset: String(before) }]
    return this.administer(async admin => {
      // It looks for the leader of topics only that it has been asked about.
      await admin.fetchTopicOffsets(topic)
      await admin.deleteTopicRecords({ topic, partitions })
    })
  }

  listed({ group }) {
    return this.administer(async admin => (await admin.listGroups()).groups.some(one => one.groupId === group))
  }

  state({ group }) {
    return this.administer(async admin => (await admin.describeGroups([group])).groups[0].state.toLowerCase())
  }

  forget({ group }) {
    return this.administer(async admin => void (await admin.deleteGroups([group])))
  }

  async quota() {
    throw new NotOffered('its administrator knows no quotas')
  }
}

main(at => new KafkaJSTeller(at))
