"""Questions with one short right answer."""

_CAPITALS = {
    "France": "Paris", "Germany": "Berlin", "Italy": "Rome", "Spain": "Madrid", "Portugal": "Lisbon",
    "Japan": "Tokyo", "China": "Beijing", "India": "New Delhi|Delhi", "Russia": "Moscow", "Egypt": "Cairo",
    "Greece": "Athens", "Austria": "Vienna", "Norway": "Oslo", "Sweden": "Stockholm", "Finland": "Helsinki",
    "Denmark": "Copenhagen", "Poland": "Warsaw", "Hungary": "Budapest", "Ireland": "Dublin", "Cuba": "Havana",
    "Mexico": "Mexico City", "Canada": "Ottawa", "Australia": "Canberra", "Argentina": "Buenos Aires",
    "Turkey": "Ankara", "Thailand": "Bangkok", "Kenya": "Nairobi", "Peru": "Lima", "Chile": "Santiago",
    "the United Kingdom": "London",
}  # fmt: skip
_CONTINENTS = {
    "Brazil": "South America", "Egypt": "Africa", "Japan": "Asia", "Italy": "Europe", "Kenya": "Africa",
    "Canada": "North America", "India": "Asia", "Norway": "Europe", "Mexico": "North America",
    "Peru": "South America",
}  # fmt: skip
_SYMBOLS = {
    "oxygen": "O", "hydrogen": "H", "carbon": "C", "nitrogen": "N", "iron": "Fe", "gold": "Au",
    "silver": "Ag", "sodium": "Na", "helium": "He", "calcium": "Ca",
}  # fmt: skip
_OPPOSITES = {
    "hot": "cold", "big": "small|little", "up": "down", "fast": "slow", "light": "dark|heavy",
    "open": "closed|close|shut", "happy": "sad|unhappy", "early": "late", "rich": "poor", "full": "empty",
}  # fmt: skip
_OTHERS = {
    "How many days are in a week?": "seven|7",
    "How many months are in a year?": "twelve|12",
    "How many hours are in a day?": "24|twenty-four",
    "How many minutes are in an hour?": "60|sixty",
    "How many legs does a spider have?": "eight|8",
    "How many legs does a dog have?": "four|4",
    "How many sides does a triangle have?": "three|3",
    "How many continents are there on Earth?": "seven|7",
    "How many players are in a football team on the field?": "eleven|11",
    "How many letters are in the English alphabet?": "26|twenty-six",
    "Which planet is closest to the Sun?": "Mercury",
    "Which planet is the largest of the solar system?": "Jupiter",
    "Which planet is known as the Red Planet?": "Mars",
    "Which planet has large rings?": "Saturn",
    "What is the name of Earth's natural satellite?": "Moon",
    "What is the largest ocean on Earth?": "Pacific",
    "What is the longest river in South America?": "Amazon",
    "What is the highest mountain in the world?": "Everest",
    "What is the largest animal in the world?": "blue whale",
    "What is the fastest land animal?": "cheetah",
    "Who wrote Romeo and Juliet?": "Shakespeare",
    "Who painted the Mona Lisa?": "Leonardo|Vinci",
    "Who developed the theory of relativity?": "Einstein",
    "Who discovered gravity when an apple fell?": "Newton",
    "Who was the first president of the United States?": "Washington",
    "Who was the first man on the Moon?": "Armstrong",
    "Who invented the light bulb?": "Edison",
    "Who discovered penicillin?": "Fleming",
    "In which year did World War II end?": "1945",
    "In which year did the first man land on the Moon?": "1969",
    "What color is the sky on a clear day?": "blue",
    "What color are ripe bananas?": "yellow",
    "What color do you get when you mix blue and yellow?": "green",
    "At how many degrees Celsius does water boil?": "100",
    "At how many degrees Celsius does water freeze?": "0|zero",
    "What is the chemical formula of water?": "H2O|H₂O",
    "Which gas do plants take from the air?": "carbon dioxide|CO2",
    "Which organ pumps blood through the body?": "heart",
    "What do bees make?": "honey",
    "In which country are the pyramids of Giza?": "Egypt",
}

# Each question, with the words one of which a right answer has, separated by `|`.
FACTS: dict[str, str] = {
    **{f"What is the capital of {country}?": capital for country, capital in _CAPITALS.items()},
    **{f"On which continent is {country}?": continent for country, continent in _CONTINENTS.items()},
    **{f"What is the chemical symbol of {element}?": symbol for element, symbol in _SYMBOLS.items()},
    **{f"What is the opposite of '{word}'?": opposite for word, opposite in _OPPOSITES.items()},
    **_OTHERS,
}
