#include "cli/deploy/workdir_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>
#include <vector>

#include "base/size_text.h"
#include "cli/deploy/ignore_rules.h"

namespace tfdist::cli {
namespace {

constexpr size_t kShownLeftOut = 3;
constexpr size_t kShownCredentials = 12;
constexpr std::array<const char*, kLeftOutReasons> kReasons = {"by .gitignore",
                                                               "by .tfdistignore",
                                                               "as version control",
                                                               "as results of tfdist pull",
                                                               "as data, which is sent by itself",
                                                               "as output of tfdist",
                                                               "as tfdist's own folders",
                                                               "as keys and credentials"};

// The largest first.
std::vector<LeftOut> LeftOutFor(LeftOutBy reason, const WorkdirListing& listing) {
  std::vector<LeftOut> found;
  std::ranges::copy_if(listing.left_out, std::back_inserter(found),
                       [&](const LeftOut& one) { return one.by == reason; });
  std::ranges::stable_sort(found, std::ranges::greater(), &LeftOut::bytes);
  return found;
}

std::string TextFor(const std::vector<LeftOut>& found, const char* more, size_t most) {
  uint64_t bytes = 0;
  std::string shown;
  for (size_t i = 0; i < found.size(); ++i) {
    bytes += found[i].bytes;
    if (i >= most) continue;
    shown += fmt::format("{}{} {}", i == 0 ? "" : ", ", found[i].path, SizeText(found[i].bytes));
  }
  return fmt::format("{}{} ({}{})", more, SizeText(bytes), shown,
                     found.size() > most ? ", ..." : "");
}

}  // namespace

std::string WorkdirText(const WorkdirListing& listing) {
  std::string text = fmt::format("workdir: {} file{}, {}", CountText(listing.files),
                                 listing.files == 1 ? "" : "s", SizeText(listing.bytes));
  const char* more = listing.left_out_is_more ? "more than " : "";
  for (size_t reason = 0; reason < kLeftOutReasons; ++reason) {
    const auto by = static_cast<LeftOutBy>(reason);
    const auto found = LeftOutFor(by, listing);
    if (found.empty()) continue;
    const size_t most = by == LeftOutBy::kCredentials ? kShownCredentials : kShownLeftOut;
    text += fmt::format("; left out {}: {}", kReasons.at(reason), TextFor(found, more, most));
  }
  return text;
}

std::string HowToBringBack(const WorkdirListing& listing, const std::filesystem::path& workdir) {
  for (const auto& [reason, what] :
       {std::pair(LeftOutBy::kGitIgnore, "what .gitignore leaves out"),
        std::pair(LeftOutBy::kResults, "results of tfdist pull"),
        std::pair(LeftOutBy::kCredentials, "a key that the program needs")}) {
    const auto found = LeftOutFor(reason, listing);
    if (found.empty()) continue;
    return fmt::format("to send {}, write a line such as !/{}{} into {}", what, found[0].path,
                       found[0].is_folder ? "/" : "", (workdir / kTfdistIgnoreFile).string());
  }
  return {};
}

}  // namespace tfdist::cli
