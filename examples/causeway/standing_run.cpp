// SPDX-License-Identifier: Apache-2.0
#include "standing_run.hpp"

#include <causeway/formats/json.hpp>

#include <algorithm>
#include <fstream>
#include <utility>

namespace app {
namespace {

using namespace std::chrono_literals;
using causeway::formats::json_value;

struct reason {
  double at = 0;  ///< Unix time
  std::string text;
};

// The end of a peer's records is enough.
reason newest_reason(const std::string& folder) {
  reason newest;
  std::ifstream file{folder + "/metrics.jsonl", std::ios::ate};
  const std::streamoff length = file ? std::streamoff{file.tellg()} : 0;
  file.seekg(std::max<std::streamoff>(0, length - (std::streamoff{64} << 10U)));
  for (std::string line; std::getline(file, line);) {
    if (line.find("\"level\":\"waiting\"") == std::string::npos) continue;
    const auto parsed = causeway::formats::parse_json(line, folder);
    const json_value* const at = parsed ? parsed->find("ts") : nullptr;
    const json_value* const text = parsed ? parsed->find("text") : nullptr;
    if (at != nullptr && text != nullptr) newest = {at->number, text->text};
  }
  return newest;
}

}  // namespace

void standing_run::goes_on() {
  since_ = clock::now();
  said_ = false;
}

std::optional<std::string> standing_run::why(const std::vector<std::string>& folders) {
  const clock::time_point now = clock::now();
  if (said_ || now - since_ < 5s || now < next_look_) return std::nullopt;
  next_look_ = now + 1s;
  const double since = std::chrono::duration<double>((since_ - 1s).time_since_epoch()).count();  // a round is seen late
  reason newest;
  for (const std::string& folder : folders) {
    reason found = newest_reason(folder);
    if (found.at >= since && found.at > newest.at) newest = std::move(found);
  }
  if (newest.text.empty()) return std::nullopt;
  said_ = true;
  return newest.text;
}

}  // namespace app
