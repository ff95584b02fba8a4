#include "cli/show/print_json.h"

#include "cli/stream/print.h"

namespace tfdist::cli {

void PrintJson(const nlohmann::json& value) {
  PrintLines(value.dump(2, ' ', true, nlohmann::json::error_handler_t::replace) + "\n");
}

}  // namespace tfdist::cli
