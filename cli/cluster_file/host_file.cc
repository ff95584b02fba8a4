#include "cli/cluster_file/host_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "base/error.h"
#include "base/file.h"
#include "base/text.h"
#include "cli/cluster_file/host_range.h"
#include "cli/cluster_file/read_hosts.h"
#include "cli/cluster_file/standard_input.h"

namespace tfdist::cli {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostBytes = 4 << 20;
constexpr size_t kWordsOfGridEngine = 4;  // host, slots, queue, processors
constexpr std::string_view kBlanks = " \t\r";
constexpr const char* kNoPort =
    "a port of SSH stands in ~/.ssh/config, in ssh://user@gpu1:2200, or in [ssh] of a cluster file";
constexpr const char* kForms = "a line is HOST, HOST:4, HOST slots=4 or HOST 4";

std::vector<std::string_view> WordsOf(std::string_view line) {
  line = line.substr(0, line.find('#'));
  std::vector<std::string_view> words;
  while (true) {
    const size_t begin = line.find_first_not_of(kBlanks);
    if (begin == line.npos) return words;
    line.remove_prefix(begin);
    words.push_back(line.substr(0, line.find_first_of(kBlanks)));
    line.remove_prefix(words.back().size());
  }
}

std::optional<int> NumberOfSlots(std::string_view text) {
  int number = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || rest != end || number < 1 || number > kMostSlots) {
    return std::nullopt;
  }
  return number;
}

class HostFile {
 public:
  HostFile(std::string name, const Where& where, Problems& problems)
      : name_(std::move(name)), where_(where), problems_(problems) {}

  void Take(std::string_view line) {
    ++line_;
    const std::vector<std::string_view> words = WordsOf(line);
    if (words.empty()) return;
    auto parsed = ParseHosts(words[0], HostNumber::kSlots);
    if (const auto* bad = std::get_if<BadAddress>(&parsed)) {
      const bool has_hint = !bad->hint.empty() || words[0].find(':') == std::string_view::npos;
      return Report(bad->why, has_hint ? bad->hint : kNoPort);
    }
    const std::optional<int> slots = SlotsOf(words);
    for (HostWords& host : std::get<std::vector<HostWords>>(parsed)) {
      if (slots && host.slots) return Report("says its slots twice");
      host.slots = slots ? slots : host.slots;
      Add(std::move(host));
    }
  }

  std::vector<HostWords> TakeHosts() && {
    if (hosts_.empty() && !is_bad_) problems_.Add(where_, name_ + " names no host", kForms);
    return std::move(hosts_);
  }

 private:
  // What follows the host; nullopt: it says no number.
  std::optional<int> SlotsOf(const std::vector<std::string_view>& words) {
    std::optional<int> slots;
    std::optional<int> most;
    for (size_t at = 1; at < words.size(); ++at) {
      const size_t equals = words[at].find('=');
      const std::string_view key = words[at].substr(0, equals);
      const bool is_plain = equals == key.npos;
      if (is_plain && at > 1 && words.size() == kWordsOfGridEngine) break;
      const auto number = NumberOfSlots(is_plain ? key : words[at].substr(equals + 1));
      if (is_plain && (key == "slots" || key == "max_slots" || key == "max-slots")) {
        Report("no blank may stand around =", kForms);
        break;
      }
      if (is_plain ? at != 1 : key != "slots" && key != "max_slots" && key != "max-slots") {
        Report(fmt::format("{} is not understood", Quoted(words[at])), kForms);
      } else if (!number) {
        Report(fmt::format("{}: expected 1 to {} slots", Quoted(words[at]), kMostSlots));
      } else {
        (key.starts_with("max") ? most : slots) = number;
      }
    }
    if (slots && most && *slots > *most) Report("has more slots than max_slots");
    return slots;
  }

  // Another line of the same host has more slots of it.
  void Add(HostWords host) {
    const auto known = std::ranges::find_if(hosts_, [&](const HostWords& other) {
      return other.host == host.host && other.user == host.user && other.port == host.port;
    });
    if (known == hosts_.end()) {
      host.slots = host.slots.value_or(1);
      hosts_.push_back(std::move(host));
    } else if (*known->slots + host.slots.value_or(1) > kMostSlots) {
      Report(fmt::format("{} has more than {} slots", host.host, kMostSlots));
    } else {
      *known->slots += host.slots.value_or(1);
    }
  }

  void Report(const std::string& what, std::string hint = {}) {
    is_bad_ = true;
    problems_.Add(where_, fmt::format("{}:{}: {}", name_, line_, what), std::move(hint));
  }

  const std::string name_;
  const Where where_;
  Problems& problems_;
  std::vector<HostWords> hosts_;
  int line_ = 0;
  bool is_bad_ = false;
};

}  // namespace

std::optional<std::string> ReadHostFile(const fs::path& path, const Where& where,
                                        Problems& problems) {
  try {
    if (path == kStandardInput) return ReadStandardInput(kMostBytes);
    if (auto text = ReadFileIfExists(path.string(), kMostBytes)) return text;
    problems.Add(where, fmt::format("there is no file {}", path.string()));
  } catch (const Error& error) {
    problems.Add(where, error.cause());
  }
  return std::nullopt;
}

std::vector<HostWords> ParseHostFile(std::string_view text, const std::string& name,
                                     const Where& where, Problems& problems) {
  HostFile file(name, where, problems);
  while (!text.empty()) file.Take(TakeUpTo('\n', text));
  return std::move(file).TakeHosts();
}

std::vector<std::string> HostsOfFile(const fs::path& path) {
  Problems problems;
  const Where where{0, 0, "--hostfile"};
  std::vector<std::string> hosts;
  if (const auto text = ReadHostFile(path, where, problems)) {
    const std::string name = path == kStandardInput ? "<stdin>" : path.string();
    for (const HostWords& words : ParseHostFile(*text, name, where, problems)) {
      const bool is_ipv6 = words.host.find(':') != std::string::npos;
      hosts.push_back(fmt::format("{}{}{}{}{}:{}", words.port ? "ssh://" : "", words.user,
                                  words.user.empty() ? "" : "@",
                                  is_ipv6 ? fmt::format("[{}]", words.host) : words.host,
                                  words.port ? fmt::format(":{}", *words.port) : "", *words.slots));
    }
  }
  if (!problems.empty()) throw PlanErrors("command line", problems.Sorted());
  return hosts;
}

}  // namespace tfdist::cli
