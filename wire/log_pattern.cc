#include "wire/log_pattern.h"

#include <fmt/format.h>

#include <algorithm>
#include <bitset>
#include <cctype>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "base/failures.h"

namespace tfdist::protocol {

// With a name: LogPattern::Search, which has one outside of this file, holds some of it.
namespace log_pattern {

constexpr size_t kMostPatternBytes = 1024;
constexpr int kMostRepetitions = 255;
constexpr int kEndless = -1;

using ByteSet = std::bitset<256>;

enum class Place { kBegin, kEnd, kWordBegins, kWordEnds, kWordEdge, kNoWordEdge };

struct Node {
  enum class Kind { kBytes, kPlace, kSequence, kChoice, kRepetition };
  Kind kind = Kind::kSequence;
  ByteSet bytes = {};               // kBytes: one of them
  Place place = Place::kBegin;      // kPlace
  int least = 0;                    // kRepetition
  int most = 0;                     // or kEndless
  std::vector<Node> children = {};  // kSequence, kChoice; the one of kRepetition
};

[[noreturn]] void Refuse(std::string_view why) {
  throw UsageError(Phase::kLogs, fmt::format("a pattern that would take too long: {}", why));
}

size_t Index(char c) { return static_cast<unsigned char>(c); }

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

template <typename Predicate>
ByteSet SetOf(Predicate predicate) {
  ByteSet bytes;
  for (int c = 0; c < 256; ++c) bytes[static_cast<size_t>(c)] = predicate(c) != 0;
  return bytes;
}

// Of the C locale, which this process has: ASCII.
std::optional<ByteSet> ClassCalled(std::string_view name) {
  static constexpr std::pair<std::string_view, int (*)(int)> kClasses[] = {
      {"alnum", isalnum}, {"alpha", isalpha}, {"blank", isblank}, {"cntrl", iscntrl},
      {"digit", isdigit}, {"graph", isgraph}, {"lower", islower}, {"print", isprint},
      {"punct", ispunct}, {"space", isspace}, {"upper", isupper}, {"xdigit", isxdigit}};
  for (const auto& [called, predicate] : kClasses) {
    if (called == name) return SetOf(predicate);
  }
  return std::nullopt;
}

bool IsOfWord(int c) { return isalnum(c) != 0 || c == '_'; }

// By recursion, at most a few levels for each byte of the pattern.
class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Node Parse() { return ParseChoice(); }

 private:
  [[noreturn]] void Fail(std::string_view why) const {
    throw UsageError(Phase::kLogs, fmt::format("{}: not a regular expression: {}", text_, why));
  }
  [[nodiscard]] bool AtEnd() const { return at_ == text_.size(); }
  [[nodiscard]] bool Sees(std::string_view what) const {
    return text_.substr(at_).starts_with(what);
  }
  bool Take(std::string_view what) {
    if (!Sees(what)) return false;
    at_ += what.size();
    return true;
  }
  char TakeByte(std::string_view why_at_end) {
    if (AtEnd()) Fail(why_at_end);
    return text_[at_++];
  }

  static Node OneOf(ByteSet bytes) { return {.kind = Node::Kind::kBytes, .bytes = bytes}; }
  static Node One(char c) { return OneOf(ByteSet().set(Index(c))); }
  static Node At(Place place) { return {.kind = Node::Kind::kPlace, .place = place}; }

  Node ParseChoice() {
    Node choice{.kind = Node::Kind::kChoice};
    do {
      choice.children.push_back(ParseSequence());
    } while (Take("|"));
    return choice;
  }

  // A parenthesis that closes nothing is a byte as any other.
  Node ParseSequence() {
    Node sequence{.kind = Node::Kind::kSequence};
    while (!AtEnd() && !Sees("|") && !(open_groups_ > 0 && Sees(")"))) {
      sequence.children.push_back(ParseRepeated());
    }
    return sequence;
  }

  Node ParseRepeated() {
    Node node = ParseOne();
    if (node.kind == Node::Kind::kPlace) return node;
    while (auto repetition = TakeRepetition()) {
      repetition->children.push_back(std::move(node));
      node = *std::move(repetition);
    }
    return node;
  }

  std::optional<Node> TakeRepetition() {
    const auto repetition = [](int least, int most) {
      return Node{.kind = Node::Kind::kRepetition, .least = least, .most = most};
    };
    if (Take("*")) return repetition(0, kEndless);
    if (Take("+")) return repetition(1, kEndless);
    if (Take("?")) return repetition(0, 1);
    if (!Take("{")) return std::nullopt;
    const auto least = TakeNumber();
    auto most = least;
    const bool has_most = Take(",");
    if (has_most) most = Sees("}") ? kEndless : TakeNumber();
    if (!Take("}") || (!least && !has_most) || !most) Fail("Invalid content of {}");
    if (*most != kEndless && *most < least.value_or(0)) Fail("Invalid content of {}");
    return repetition(least.value_or(0), *most);
  }

  std::optional<int> TakeNumber() {
    std::optional<int> number;
    for (; !AtEnd() && IsDigit(text_[at_]); ++at_) {
      number = 10 * number.value_or(0) + (text_[at_] - '0');
      if (*number > kMostRepetitions) Refuse("it repeats by {} more than 255 times");
    }
    return number;
  }

  Node ParseOne() {
    const char c = text_[at_++];
    switch (c) {
      case '(':
        return ParseGroup();
      case '[':
        return OneOf(ParseBrackets());
      case '\\':
        return ParseEscaped();
      case '^':
        return At(Place::kBegin);
      case '$':
        return At(Place::kEnd);
      case '.':
        return OneOf(~ByteSet().set(0));
      case '*':
      case '+':
      case '?':
      case '{':
        Fail("nothing is before a repetition");
      default:
        return One(c);
    }
  }

  Node ParseGroup() {
    ++open_groups_;
    Node node = ParseChoice();
    --open_groups_;
    if (!Take(")")) Fail("Unmatched (");
    return node;
  }

  Node ParseEscaped() {
    const char c = TakeByte("Trailing backslash");
    switch (c) {
      case 'w':
        return OneOf(SetOf(IsOfWord));
      case 'W':
        return OneOf(~SetOf(IsOfWord));
      case 's':
        return OneOf(SetOf(isspace));
      case 'S':
        return OneOf(~SetOf(isspace));
      case 'b':
        return At(Place::kWordEdge);
      case 'B':
        return At(Place::kNoWordEdge);
      case '<':
        return At(Place::kWordBegins);
      case '>':
        return At(Place::kWordEnds);
      case '`':
        return At(Place::kBegin);
      case '\'':
        return At(Place::kEnd);
      default:
        break;
    }
    if (IsDigit(c) && c != '0') Refuse("it has a back-reference");
    return One(c);
  }

  ByteSet ParseBrackets() {
    const bool is_negated = Take("^");
    ByteSet bytes;
    bool is_first = true;
    for (; is_first || !Sees("]"); is_first = false) bytes |= ParseElement(is_first);
    Take("]");
    return is_negated ? ~bytes : bytes;
  }

  ByteSet ParseElement(bool is_first) {
    if (Take("[:")) return ParseClass();
    if (!is_first && Sees("-") && !Sees("-]")) Fail("Invalid range end");
    const char from = ParseEnd();
    if (!Sees("-") || Sees("-]")) return ByteSet().set(Index(from));
    Take("-");
    if (Sees("[:")) Fail("Invalid range end");
    const char to = ParseEnd();
    if (Index(to) < Index(from)) Fail("Invalid range end");
    ByteSet bytes;
    for (size_t c = Index(from); c <= Index(to); ++c) bytes.set(c);
    return bytes;
  }

  ByteSet ParseClass() {
    const size_t end = text_.find(":]", at_);
    if (end == std::string_view::npos) Fail("Unmatched [");
    const auto found = ClassCalled(text_.substr(at_, end - at_));
    if (!found) Fail("Invalid character class name");
    at_ = end + 2;
    return *found;
  }

  // A byte, or "[.-.]", "[=a=]".
  char ParseEnd() {
    for (const char mark : {'.', '='}) {
      if (!Take(std::string("[") + mark)) continue;
      const char c = TakeByte("Unmatched [");
      if (!Take(std::string(1, mark) + "]")) Fail("Invalid collation character");
      return c;
    }
    return TakeByte("Unmatched [");
  }

  std::string_view text_;
  size_t at_ = 0;
  int open_groups_ = 0;
};

struct Instruction {
  enum class Kind { kBytes, kPlace, kSplit, kFound };
  Kind kind = Kind::kFound;
  ByteSet bytes = {};           // kBytes: goes on behind one of them, with the next instruction
  Place place = Place::kBegin;  // kPlace: goes on there, with the next instruction
  uint32_t first = 0;           // kSplit: goes on with both
  uint32_t second = 0;
};

class Compiler {
 public:
  std::vector<Instruction> Compile(const Node& node) {
    Add(node);
    Emit({.kind = Instruction::Kind::kFound});
    return std::move(program_);
  }

 private:
  uint32_t Emit(Instruction instruction) {
    if (program_.size() >= LogPattern::kMostInstructions) {
      Refuse("with its repetitions written out it is longer than 4096 steps");
    }
    program_.push_back(instruction);
    return Here() - 1;
  }
  [[nodiscard]] uint32_t Here() const { return static_cast<uint32_t>(program_.size()); }
  // To the next instruction, until it is told better.
  uint32_t EmitSplit() {
    return Emit({.kind = Instruction::Kind::kSplit, .first = Here() + 1, .second = Here() + 1});
  }
  void EmitJump(uint32_t to) {
    Emit({.kind = Instruction::Kind::kSplit, .first = to, .second = to});
  }

  void Add(const Node& node) {
    switch (node.kind) {
      case Node::Kind::kBytes:
        Emit({.kind = Instruction::Kind::kBytes, .bytes = node.bytes});
        break;
      case Node::Kind::kPlace:
        Emit({.kind = Instruction::Kind::kPlace, .place = node.place});
        break;
      case Node::Kind::kSequence:
        for (const Node& child : node.children) Add(child);
        break;
      case Node::Kind::kChoice:
        AddChoice(node);
        break;
      case Node::Kind::kRepetition:
        AddRepetition(node);
        break;
    }
  }

  void AddChoice(const Node& node) {
    std::vector<uint32_t> jumps;
    for (size_t at = 0; at < node.children.size(); ++at) {
      const bool is_last = at + 1 == node.children.size();
      const uint32_t split =
          EmitSplit();  // of an empty group, too: a repetition of it costs something
      Add(node.children[at]);
      if (is_last) break;
      jumps.push_back(EmitSplit());
      program_[split].second = Here();
    }
    for (const uint32_t jump : jumps) program_[jump].first = program_[jump].second = Here();
  }

  void AddRepetition(const Node& node) {
    // Of what is there no times, too: a repetition of it costs something.
    if (node.most == 0) EmitSplit();
    for (int time = 0; time < node.least; ++time) Add(node.children.front());
    if (node.most == kEndless) {
      const uint32_t split = EmitSplit();
      Add(node.children.front());
      EmitJump(split);
      program_[split].second = Here();
      return;
    }
    std::vector<uint32_t> splits;
    for (int time = node.least; time < node.most; ++time) {
      splits.push_back(EmitSplit());
      Add(node.children.front());
    }
    for (const uint32_t split : splits) program_[split].second = Here();
  }

  std::vector<Instruction> program_;
};

std::vector<Instruction> Compiled(const std::string& pattern) {
  if (pattern.size() > kMostPatternBytes) Refuse("it is longer than 1 KiB");
  return Compiler().Compile(Parser(pattern).Parse());
}

bool IsAt(Place place, std::string_view line, size_t at) {
  const bool word_before = at > 0 && IsOfWord(static_cast<int>(Index(line[at - 1])));
  const bool word_behind = at < line.size() && IsOfWord(static_cast<int>(Index(line[at])));
  switch (place) {
    case Place::kBegin:
      return at == 0;
    case Place::kEnd:
      return at == line.size();
    case Place::kWordBegins:
      return !word_before && word_behind;
    case Place::kWordEnds:
      return word_before && !word_behind;
    case Place::kWordEdge:
      return word_before != word_behind;
    case Place::kNoWordEdge:
      return word_before == word_behind;
  }
  return false;
}

}  // namespace log_pattern

// Thompson's simulation: at each byte the instructions (kBytes) at which a way has arrived.
class LogPattern::Search {
  using Instruction = log_pattern::Instruction;

 public:
  explicit Search(const std::string& pattern)
      : program_(log_pattern::Compiled(pattern)), arrived_at_(program_.size(), 0) {
    FindStarts();
  }

  bool FoundIn(std::string_view line) {
    ways_.clear();
    for (size_t at = 0;; ++at) {
      if (at == 0 || ways_.empty()) BeginStep();
      if (MayStartAt(line, at) && Arrive(ways_, 0, line, at)) return true;
      if (at == line.size()) return false;
      if (!ways_.empty() && Step(line, at)) return true;
    }
  }

 private:
  // With which bytes something can begin that the pattern fits: few have to be looked at closely.
  void FindStarts() {
    std::vector<uint32_t> pending = {0};
    std::vector<bool> seen(program_.size());
    while (!pending.empty()) {
      const uint32_t here = pending.back();
      pending.pop_back();
      if (seen[here]) continue;
      seen[here] = true;
      const Instruction& is = program_[here];
      if (is.kind == Instruction::Kind::kFound) starts_with_nothing_ = true;
      if (is.kind == Instruction::Kind::kBytes) starts_ |= is.bytes;
      if (is.kind == Instruction::Kind::kPlace) pending.push_back(here + 1);
      if (is.kind == Instruction::Kind::kSplit)
        pending.insert(pending.end(), {is.second, is.first});
    }
  }

  [[nodiscard]] bool MayStartAt(std::string_view line, size_t at) const {
    return starts_with_nothing_ || (at < line.size() && starts_[log_pattern::Index(line[at])]);
  }

  // What arrives from now on does so at another byte.
  void BeginStep() {
    if (++step_ != 0) return;
    std::ranges::fill(arrived_at_, 0);
    step_ = 1;
  }

  bool Step(std::string_view line, size_t at) {
    BeginStep();
    next_.clear();
    for (const uint32_t way : ways_) {
      if (program_[way].bytes[log_pattern::Index(line[at])] && Arrive(next_, way + 1, line, at + 1))
        return true;
    }
    std::swap(ways_, next_);
    return false;
  }

  // Adds to `ways` all to which `instruction` leads without a byte. True: the pattern is found.
  bool Arrive(std::vector<uint32_t>& ways, uint32_t instruction, std::string_view line, size_t at) {
    pending_.assign(1, instruction);
    while (!pending_.empty()) {
      const uint32_t here = pending_.back();
      pending_.pop_back();
      if (std::exchange(arrived_at_[here], step_) == step_) continue;
      const Instruction& is = program_[here];
      if (is.kind == Instruction::Kind::kFound) return true;
      if (is.kind == Instruction::Kind::kBytes) ways.push_back(here);
      if (is.kind == Instruction::Kind::kSplit)
        pending_.insert(pending_.end(), {is.second, is.first});
      if (is.kind == Instruction::Kind::kPlace && log_pattern::IsAt(is.place, line, at)) {
        pending_.push_back(here + 1);
      }
    }
    return false;
  }

  std::vector<Instruction> program_;
  log_pattern::ByteSet starts_;
  bool starts_with_nothing_ = false;
  std::vector<uint32_t> ways_;
  std::vector<uint32_t> next_;
  std::vector<uint32_t> pending_;
  std::vector<uint32_t> arrived_at_;  // in which step, for each instruction
  uint32_t step_ = 0;
};

LogPattern::LogPattern(const std::string& pattern) : search_(std::make_unique<Search>(pattern)) {}

LogPattern::LogPattern(LogPattern&&) noexcept = default;

LogPattern::~LogPattern() = default;

bool LogPattern::FoundIn(std::string_view line) { return search_->FoundIn(line); }

}  // namespace tfdist::protocol
