// Texts of a plan as far as they are known here, for people: what only the host knows shows as <jobdir>/work, <keep>, ~, ${NAME}.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/plan/plan.h"

namespace tfdist::cli {

// What stands for paths that only the host knows.
struct Places {
  std::string work = "<jobdir>/work";
  std::string runtime = "<jobdir>/runtime";
  std::string keep = "<keep>";
  std::string set_up = "<setup>";
  std::string data = "<data>";  // of data that is sent
};

// Refers to the plan.
class Filling {
 public:
  explicit Filling(const Plan& plan, Places places = {});

  [[nodiscard]] std::string Fill(const protocol::Text& text) const;

  // As a shell would fill in the host's variables: ~/'my data', "${NAME}"/x.
  using Quote = std::string (*)(std::string_view);
  [[nodiscard]] std::string Word(const protocol::Text& text, Quote quote) const;

 private:
  // With the paths of data, as far as they are known here.
  [[nodiscard]] protocol::Text WithData(const protocol::Text& text) const;
  [[nodiscard]] protocol::Text PathOf(std::string_view data) const;
  void AddQuoted(const protocol::Text& literal, Quote quote, std::string& word) const;

  Places places_;
  std::vector<std::string> addresses_;
  const protocol::CommonTexts& common_;
  const std::vector<DataPlan>& data_;
};

}  // namespace tfdist::cli
