"""A small history with questions, written for these tests: what a change that hurts the ranking is
seen by.

The questions say things otherwise than the messages do, name who said them, ask for what stands in
the answer to another message, or ask by a rare word. Each names the messages that answer it, as
conversation and place from 0.
"""

HISTORY: dict[str, list[tuple[str, str]]] = {
    "boat": [
        ("Mara", "The sailing club wants the dues by Friday, and our boat still needs its bottom scraped."),
        ("Theo", "I can borrow my brother's trailer on Saturday. Is the hull worse than last spring?"),
        ("Mara", "Much worse. Barnacles everywhere, and one plank near the keel is soft."),
        ("Theo", "Then we should ask Olsen at the yard what a new plank costs before we launch."),
        ("Mara", "He said four hundred, and that he is booked until the tenth."),
    ],
    "school": [
        ("Mara", "Lina's teacher called. She does not finish her arithmetic and draws horses instead."),
        ("Theo", "She told me the tasks are boring. Perhaps the harder workbook?"),
        ("Mara", "The teacher offered exactly that, starting after the autumn break."),
        ("Theo", "Good. And who takes her to riding on Wednesdays from now on?"),
        ("Mara", "Your mother volunteered, as long as it does not snow."),
    ],
    "kitchen": [
        ("Theo", "The plumber found why the sink smells: the trap was cracked all along."),
        ("Mara", "How much does he want for replacing it?"),
        ("Theo", "Ninety, with parts. He also thinks that the dishwasher hose will burst within a year."),
        ("Mara", "Let him do both, then. I do not want another flood on the new parquet."),
    ],
    "server": [
        ("Theo", "The nightly backup failed again with error E4417 on the second disk."),
        ("agent", "The disk reports 214 reallocated sectors. It should be replaced before it fails altogether."),
        ("Theo", "Order the same model, please, and tell me when it arrives."),
        ("agent", "Ordered. Delivery is expected on Thursday; the array rebuilds in about nine hours."),
        ("Theo", "Until then write the backups to the machine in the attic."),
    ],
    "journey": [
        ("Mara", "For the summer I would like somewhere cool. The north of Norway, maybe?"),
        ("Theo", "The night train to Narvik sounds wonderful, but Lina gets sick on trains."),
        ("Mara", "On ships she never is. The coastal steamer calls at thirty-four ports."),
        ("Theo", "A cabin with a window for three costs more than our car."),
        ("Mara", "Not in late August. I found one for a third less."),
        ("Theo", "Then book it, and ask whether they take a dog."),
    ],
    "dog": [
        ("Mara", "The shelter has an old dachshund that nobody wants. His name is Bruno."),
        ("Theo", "We both work all day. Who would walk him at noon?"),
        ("Mara", "Mrs. Adeyemi from downstairs. She lost her own terrier in March and misses it."),
        ("Theo", "If she is sure, I give in. But he does not sleep in our bed."),
    ],
    "health": [
        ("Theo", "My knee is swollen since the run on Sunday."),
        ("Mara", "Doctor Petridis has an opening tomorrow at eight."),
        ("Theo", "He says the meniscus is torn a little: no running for six weeks, swimming is allowed."),
        ("Mara", "Then the marathon is off?"),
        ("Theo", "Postponed. I gave my starting number to Jonas."),
    ],
    "money": [
        ("Mara", "The bank offers to fix our mortgage at three point two per cent for ten years."),
        ("Theo", "The credit union had two point nine, though they charge for early repayment."),
        ("Mara", "We will not repay early, whatever you dream of."),
        ("Theo", "Then let us sign with the credit union before the rates move."),
    ],
    "garden": [
        ("Mara", "Something eats the lettuce at night."),
        ("Theo", "Slugs. A saucer of beer next to the row drowns them."),
        ("Mara", "I would rather have ducks. They also fertilise."),
        ("Theo", "The landlord forbids poultry; it is in paragraph nine of the lease."),
    ],
    "birthday": [
        ("Theo", "What shall we give my father for his seventieth?"),
        ("Mara", "He keeps talking about the steam locomotive that he fired as a young man."),
        ("Theo", "The museum railway lets guests ride in the cab. I will ask for the second Sunday in May."),
        ("Mara", "Wonderful. I bake the walnut cake, since he cannot have chocolate."),
    ],
    "work": [
        ("Mara", "They asked me to lead the new laboratory in Ghent."),
        ("Theo", "Congratulations! Would we have to move?"),
        ("Mara", "Two days a week there, the rest from home. It begins in January."),
        ("Theo", "Then you should take it. I can do the mornings with Lina."),
    ],
    "car": [
        ("Theo", "The inspection found rust in both sills, so the old estate will not pass again."),
        ("Mara", "Could we live without one? The tram stops at the door."),
        ("Theo", "For the boat trailer we need something that pulls. Car sharing has vans."),
        ("Mara", "Let us try that for half a year and put the insurance money aside."),
    ],
    "music": [
        ("Mara", "The choir sings the Requiem by Fauré in November, and they lack tenors."),
        ("Theo", "I have not sung since school."),
        ("Mara", "Rehearsals are on Tuesdays at seven in the parish hall. Just come and listen."),
    ],
    "films": [
        ("Theo", "Did you like the film about the lighthouse keepers?"),
        ("Mara", "Far too gloomy. The one with the two bakers was more to my taste."),
    ],
}  # fmt: skip

QUESTIONS: list[tuple[str, list[tuple[str, int]]]] = [
    ("What is wrong with the hull of our boat?", [("boat", 2)]),
    ("What does the repair at the shipyard cost?", [("boat", 4)]),
    ("Why is the child doing badly in mathematics?", [("school", 0), ("school", 1)]),
    ("Who drives Lina to her horse lessons?", [("school", 4), ("school", 3)]),
    ("Why was there a bad odour in the kitchen?", [("kitchen", 0)]),
    ("Which appliance might cause water damage?", [("kitchen", 2)]),
    ("E4417", [("server", 0)]),
    ("When does the replacement drive get here?", [("server", 3)]),
    ("Where are copies of the data kept in the meantime?", [("server", 4)]),
    ("Where do we want to go on vacation?", [("journey", 0)]),
    ("Why do we not go by rail?", [("journey", 1)]),
    ("What did Mara find out about the price of the cabin?", [("journey", 4)]),
    ("Which breed is the pet that we might adopt?", [("dog", 0)]),
    ("Who looks after the animal during lunch time?", [("dog", 2), ("dog", 1)]),
    ("What injury does Theo have?", [("health", 2), ("health", 0)]),
    ("Who runs the race in his place?", [("health", 4)]),
    ("Which lender has the lower interest?", [("money", 1)]),
    ("How do we get rid of the pests in the vegetable bed?", [("garden", 1)]),
    ("Are we allowed to keep birds?", [("garden", 3)]),
    ("What is grandfather's present?", [("birthday", 2), ("birthday", 1)]),
    ("Which dessert is made for the party?", [("birthday", 3)]),
    ("What promotion was Mara offered?", [("work", 0)]),
    ("How often would she commute to Belgium?", [("work", 2)]),
    ("Why can the vehicle not be driven any longer?", [("car", 0)]),
    ("At what time does the singing group practise?", [("music", 2)]),
    ("Which movie did Mara prefer?", [("films", 1)]),
]
