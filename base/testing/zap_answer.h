// What every ZAP handler's answer must be (ZeroMQ RFC 27), for fuzz targets: one of six parts, for
// just that request, and "200" with the user's name only for one who may come in.
#pragma once

#include <cassert>
#include <string>
#include <vector>

namespace tfdist {

// `user` "": the request is to be refused.
inline void CheckZapAnswer(const std::vector<std::string>& request,
                           const std::vector<std::string>& answer, const std::string& user) {
  assert(answer.size() == 6);
  assert(answer[0] == "1.0");
  assert(answer[1] == (request.size() > 1 ? request[1] : ""));
  assert(answer[2] == (user.empty() ? "400" : "200"));
  assert(answer[4] == user);
}

}  // namespace tfdist
