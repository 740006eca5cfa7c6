// Moves the clock of a broker over HTTP, with nothing but Node; prints what it answers.
const answer = await fetch(`${process.argv[2]}/v1/control/clock`, {
  method: "POST",
  headers: { "Content-Type": "application/json" },
  body: JSON.stringify({ milliseconds: 1000 }),
});
if (!answer.ok) throw new Error(await answer.text());
console.log(await answer.text());
