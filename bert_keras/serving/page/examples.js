// Texts to begin with, for each way of asking a model. `{mask}` becomes the model's mask token.

export const EXAMPLES = {
  labels: [
    { text: "A quiet film with a brilliant ending. I would watch it again tomorrow." },
    { text: "The room was cold, and nobody at the desk seemed to care." },
  ],
  pair: [
    { text: "A man plays the guitar on a small stage.", pair: "Somebody makes music." },
    { text: "The bridge is closed until June.", pair: "Cars cross the bridge today." },
  ],
  regression: [
    { text: "The soup was good, but we waited an hour for it." },
    { text: "Everything was perfect, from the first minute to the last." },
  ],
  entities: [
    {
      text:
        "Marie Curie left Warsaw in 1891 and studied in Paris. At the Sorbonne she met " +
        "Pierre Curie, and in 1903 the Royal Swedish Academy of Sciences honoured both.",
    },
    { text: "Next week Ada Lovelace flies from London to Turin to visit Charles Babbage." },
  ],
  answers: [
    {
      question: "When does the library close on Saturdays?",
      context:
        "The town library is in the old station building. From Monday to Friday it is open " +
        "from nine to seven. On Saturdays it closes at two in the afternoon, and on Sundays it " +
        "stays shut. Books can be returned at any time, in the box beside the main door.",
    },
    {
      question: "Who repaired the clock?",
      context:
        "For eleven years the clock on the tower stood still. In spring Ines Moreau, a retired " +
        "watchmaker, repaired it in nine days. The mayor thanked her with a small party.",
    },
  ],
  choices: [
    {
      prompt: "The glass fell from the table, and",
      options: ["it broke into small pieces.", "it began to sing.", "the table grew taller."],
    },
    {
      prompt: "It rained all night, so in the morning",
      options: ["the street was wet.", "the street was closed for good."],
    },
  ],
  masks: [
    { text: "The capital of France is {mask}." },
    { text: "She drank a cup of {mask} and read the {mask}." },
  ],
  compare: [
    { text: "How do I reset my password?", pair: "I cannot remember my login." },
    { text: "The cat sleeps on the sofa.", pair: "Interest rates rose again in May." },
  ],
  vector: [
    { text: "A short walk along the river in the evening." },
    { text: "The committee will publish its report in autumn." },
  ],
  search: [
    {
      query: "a quiet place to sit and read",
      lines: [
        "The library has armchairs beside the windows on the second floor.",
        "The swimming pool opens at seven in the morning.",
        "Behind the museum there is a small garden with benches.",
        "Bicycles can be rented at the station.",
        "The market sells fruit, bread and flowers until noon.",
        "Café Linde plays no music and serves tea all day.",
        "The last bus to the airport leaves at eleven.",
        "Concerts take place in the old factory every Friday.",
      ].join("\n"),
    },
  ],
  unknown: [{ text: "A short text, to see how the model reads it." }],
};
