// @confluentinc/kafka-javascript (librdkafka) in the stories, by the interface that it shares with KafkaJS.
'use strict'

const { randomUUID } = require('node:crypto')
const { CODES, KafkaJS } = require('@confluentinc/kafka-javascript')
const { Member, NotOffered, Teller, inTime, main, shown, streamed, written } = require('../stories.js')

const { Kafka, PartitionAssigners } = KafkaJS
const STRATEGIES = {
  range: PartitionAssigners.range,
  roundrobin: PartitionAssigners.roundRobin,
  'cooperative-sticky': PartitionAssigners.cooperativeSticky,
}
const ASSIGN = CODES.ERRORS.ERR__ASSIGN_PARTITIONS
const QUIET = { log_level: 0 }

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

class ConfluentTeller extends Teller {
  producers = new Map()

  constructor(at) {
    super()
    this.settings = { 'bootstrap.servers': at.bootstrap, ...QUIET }
    if (at.mechanism) {
      Object.assign(this.settings, {
        'security.protocol': 'sasl_ssl',
        'ssl.ca.location': at.authority,
        'sasl.mechanism': at.mechanism,
        'sasl.username': at.user,
        'sasl.password': at.password,
      })
    }
    this.kafka = new Kafka({})
  }

  async close() {
    await super.close()
    for (const { producer } of this.producers.values()) await producer.disconnect()
  }

  producer(more) {
    const settings = { 'linger.ms': 5, 'message.timeout.ms': 30_000, 'message.max.bytes': 2_000_000 }
    return this.kafka.producer({ ...this.settings, ...settings, ...more })
  }

  /** By a producer of its own. */
  async write(producer, work) {
    await producer.connect()
    try {
      return await work()
    } finally {
      await producer.disconnect()
    }
  }

  async produce({ topic, records, codec = 'none', acks = 'all' }) {
    const messages = records.map(record => ({
      key: written(record.key),
      value: written(record.value),
      headers: headersOf(record),
      partition: 0,
    }))
    const producer = this.producer({ 'compression.codec': codec, acks: acks === 'all' ? -1 : Number(acks), 'linger.ms': 50 })
    const told = await this.write(producer, () => producer.send({ topic, messages })).catch(error => {
      if (error.message.includes('not available at build time')) throw new NotOffered(`built without ${codec}`)
      throw error
    })
    return acks !== '0' && told.length === 1 ? messages.map((_, number) => Number(told[0].baseOffset) + number) : null
  }

  async stream({ topic, count }) {
    const producer = this.producer({ 'enable.idempotence': true, 'reconnect.backoff.ms': 10, 'reconnect.backoff.max.ms': 50 })
    await this.write(producer, async () => {
      for (let first = 0; first < count; first += 50) {
        const messages = Array.from({ length: 50 }, (_, number) => ({ value: streamed(first + number), partition: 0 }))
        await producer.send({ topic, messages })
      }
    })
    return count
  }

  async press({ topic, client_id, count, size }) {
    const producer = this.producer({ 'client.id': client_id, 'batch.size': 100_000 })
    await this.write(producer, async () => {
      const messages = Array.from({ length: count }, () => ({ value: 'x'.repeat(size), partition: 0 }))
      await producer.send({ topic, messages })
    })
    return { acknowledged: count, throttled: null }
  }

  consumer(groupId, more) {
    const settings = { 'group.id': groupId, 'auto.offset.reset': 'earliest', 'enable.auto.commit': false }
    return this.kafka.consumer({ ...this.settings, ...settings, ...more })
  }

  /** Runs a consumer up to "end"; `within` may do more while it runs. */
  async upToTheEnd(consumer, topic, { from, within = async () => {} }) {
    const found = []
    let past = false
    try {
      await consumer.connect()
      await consumer.subscribe({ topics: [topic] })
      const ended = new Promise((resolve, reject) => {
        const eachMessage = async ({ message }) => {
          if (past) return
          past = message.value?.toString() === 'end'
          if (past) resolve(message)
          else found.push(message)
        }
        consumer.run({ eachMessage }).catch(reject)
      })
      if (from) consumer.seek({ topic, partition: 0, offset: String(from) })
      await within(await inTime(ended, `no end behind ${found.length} records`))
    } finally {
      await consumer.disconnect()
    }
    return found
  }

  async read({ topic, from = 0, committed = false, whole = false }) {
    const isolation = committed ? 'read_committed' : 'read_uncommitted'
    const consumer = this.consumer(`may-${randomUUID()}`, { 'isolation.level': isolation })
    const found = await this.upToTheEnd(consumer, topic, { from })
    return found.map(message => (whole ? wholeRecord(message) : shown(message.value)))
  }

  async resume({ group, topic }) {
    const consumer = this.consumer(group)
    const found = await this.upToTheEnd(consumer, topic, {
      within: last => consumer.commitOffsets([{ topic, partition: 0, offset: String(Number(last.offset) + 1) }]),
    })
    return found.map(message => shown(message.value))
  }

  async member({ group, topic, strategy, instance }) {
    if (!(strategy in STRATEGIES)) throw new NotOffered(`no assignor ${strategy}`)
    const member = new Member()
    const consumer = this.consumer(group, {
      'partition.assignment.strategy': strategy,
      'heartbeat.interval.ms': 200,
      ...(instance && { 'group.instance.id': instance }),
      rebalance_cb: (error, assignment) => {
        const partitions = assignment.map(({ partition }) => partition)
        if (error.code === ASSIGN) member.assigned(partitions)
        else member.revoked(partitions)
      },
    })
    await consumer.connect()
    await consumer.subscribe({ topics: [topic] })
    await consumer.run({ eachMessage: async ({ message }) => void member.values.add(message.value.toString()) })
    member.leave = () => consumer.disconnect()
    return member
  }

  async commit({ group, topic, offset, metadata = '' }) {
    const consumer = this.consumer(group)
    await consumer.connect()
    await consumer.commitOffsets([{ topic, partition: 0, offset: String(offset), metadata }])
    await consumer.disconnect()
  }

  committed({ group, topic }) {
    return this.administer(async admin => {
      const [{ partitions }] = await admin.fetchOffsets({ groupId: group, topics: [{ topic, partitions: [0] }] })
      const { offset, metadata } = partitions[0]
      return Number(offset) < 0 ? null : { offset: Number(offset), metadata: metadata ?? '' }
    })
  }

  // Transactions.

  async open({ producer: name, transactional_id, timeout_ms = 60_000 }) {
    const timeouts = { 'transaction.timeout.ms': timeout_ms, 'message.timeout.ms': timeout_ms }
    const producer = this.producer({ 'transactional.id': transactional_id, ...timeouts })
    await producer.connect()
    this.producers.set(name, { producer })
  }

  async begin({ producer }) {
    const one = this.producers.get(producer)
    one.transaction = await one.producer.transaction()
  }

  async send({ producer, topic, values }) {
    const messages = values.map(value => ({ value, partition: 0 }))
    await this.producers.get(producer).transaction.send({ topic, messages })
  }

  async offsets({ producer, group, topic, offset }) {
    const consumer = this.consumer(group)
    await consumer.connect()
    const topics = [{ topic, partitions: [{ partition: 0, offset: String(offset) }] }]
    await this.producers.get(producer).transaction.sendOffsets({ consumer, topics })
    await consumer.disconnect()
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
    const admin = this.kafka.admin(this.settings)
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
    return this.administer(async admin => void (await admin.createTopics({ topics: [wanted] })))
  }

  partitions({ topic }) {
    return this.administer(async admin => {
      const [found] = await admin.fetchTopicMetadata({ topics: [topic] })
      return found.partitions.length
    })
  }

  async grow() {
    throw new NotOffered('its administrator does not add partitions')
  }

  async setting() {
    throw new NotOffered('its administrator knows no settings')
  }

  bounds({ topic }) {
    return this.administer(async admin => {
      const [{ low, high }] = await admin.fetchTopicOffsets(topic)
      return [Number(low), Number(high)]
    })
  }

  trim({ topic, before }) {
    const partitions = [{ partition: 0, offset: String(before) }]
    return this.administer(async admin => void (await admin.deleteTopicRecords({ topic, partitions })))
  }

  listed({ group }) {
    return this.administer(async admin => (await admin.listGroups()).groups.some(one => one.groupId === group))
  }

  state({ group }) {
    return this.administer(async admin => {
      const { groups } = await admin.describeGroups([group])
      const names = KafkaJS.ConsumerGroupStates
      return Object.keys(names).find(name => names[name] === groups[0].state).toLowerCase()
    })
  }

  forget({ group }) {
    return this.administer(async admin => void (await admin.deleteGroups([group])))
  }

  async quota() {
    throw new NotOffered('its administrator knows no quotas')
  }
}

main(at => new ConfluentTeller(at))
