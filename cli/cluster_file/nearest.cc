#include "cli/cluster_file/nearest.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <vector>

namespace tfdist::cli {
namespace {

// Longer words are not mistyped ones, and the distance costs the product of both lengths.
constexpr size_t kLongestWord = 64;

constexpr size_t kShortestBeginning = 3;

// One mistake in a short word, more in a longer one.
size_t Tolerance(std::string_view word) { return 1 + word.size() / 4; }

// What was left out at the end counts as one mistake: "miror" for "mirrored".
size_t Distance(std::string_view word, std::string_view candidate) {
  size_t distance = EditDistance(word, candidate);
  if (word.size() < kShortestBeginning || word.starts_with('-')) return distance;
  for (size_t length = word.size() - 1; length <= word.size() + 1; ++length) {
    if (length >= candidate.size()) break;
    distance = std::min(distance, 1 + EditDistance(word, candidate.substr(0, length)));
  }
  return distance;
}

}  // namespace

size_t EditDistance(std::string_view a, std::string_view b) {
  // Three rows of the usual table: row[j] is the distance of a's first i letters to b's first j.
  std::vector<size_t> before_last(b.size() + 1);
  std::vector<size_t> last(b.size() + 1);
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    before_last.swap(last);
    last.swap(row);
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({replaced, last[j] + 1, row[j - 1] + 1});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) row[j] = std::min(row[j], before_last[j - 2] + 1);
    }
  }
  return row.back();
}

std::string_view NearestWord(std::string_view word, std::span<const std::string_view> known) {
  if (word.empty() || word.size() > kLongestWord) return {};
  std::string_view nearest;
  size_t best = Tolerance(word) + 1;
  for (const std::string_view candidate : known) {
    const size_t distance = Distance(word, candidate);
    // A word of which nothing is kept is no misspelling.
    if (distance < best && distance < candidate.size()) {
      best = distance;
      nearest = candidate;
    }
  }
  return nearest;
}

std::string DidYouMean(std::string_view word, std::span<const std::string_view> known) {
  const std::string_view nearest = NearestWord(word, known);
  return nearest.empty() ? std::string() : fmt::format("did you mean '{}'?", nearest);
}

}  // namespace tfdist::cli
