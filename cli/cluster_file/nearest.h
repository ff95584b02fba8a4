// "did you mean ...?": the known word that a mistyped one is nearest to.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace tfdist::cli {

// How many letters must be added, removed, changed or swapped with their neighbour to get from one
// word to the other (Levenshtein's distance with transpositions, each letter touched once).
size_t EditDistance(std::string_view a, std::string_view b);

// The nearest of `known`, or empty when none is near enough to be what was meant.
std::string_view NearestWord(std::string_view word, std::span<const std::string_view> known);

// "did you mean 'command'?", or empty.
std::string DidYouMean(std::string_view word, std::span<const std::string_view> known);

}  // namespace tfdist::cli
