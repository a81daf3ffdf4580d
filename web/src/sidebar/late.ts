// Parts of the list that come after it.
export { Choice } from "./Choice";
export { TopicFilter } from "./TopicFilter";
