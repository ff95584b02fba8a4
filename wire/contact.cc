#include "wire/contact.h"

#include "base/json_fields.h"

namespace tfdist::agent {

TFDIST_JSON_FIELDS(Contact, committed, over, clear, attended, silence_ms)

}  // namespace tfdist::agent
