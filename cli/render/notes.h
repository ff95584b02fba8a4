// What a file of another tool leaves out, said in the file and on the terminal.
#pragma once

#include <string>
#include <vector>

namespace tfdist::cli {

// A sentence each, none twice. Control characters of the user's texts become '?', so that none begins another line.
class Notes {
 public:
  void Add(std::string note);
  [[nodiscard]] const std::vector<std::string>& all() const { return notes_; }

 private:
  std::vector<std::string> notes_;
};

// A sentence as lines of at most 100 columns that begin with "# "; `mark`, as "- ", stands before the first of them.
std::string CommentLines(std::string sentence, const std::string& mark = "");

}  // namespace tfdist::cli
