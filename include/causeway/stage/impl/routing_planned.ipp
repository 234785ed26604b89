// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_STAGE_IMPL_ROUTING_PLANNED_IPP
#define CAUSEWAY_STAGE_IMPL_ROUTING_PLANNED_IPP

#include <causeway/stage/routing_planned.hpp>

#include <algorithm>
#include <charconv>
#include <system_error>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace stage { namespace routing {

CAUSEWAY_DECL result<void> check(const std::vector<path>& paths, std::uint32_t stages) {
  const auto wrong = [](const std::string& why) { return fail(errc::invalid_argument, "paths", why); };
  std::vector<char> passed(stages, paths.empty() ? 1 : 0);
  for (const path& way : paths) {
    if (way.size() != stages) {
      return wrong("'" + to_text({way}) + "' does not say a peer, - or * for each of " + std::to_string(stages) +
                   " stages");
    }
    if (way.front() == left_out || way.back() == left_out) {
      return wrong("'" + to_text({way}) + "' leaves out the first or the last stage, which every micro-batch needs");
    }
    for (std::uint32_t s = 0; s < stages; ++s) {
      if (way[s] != left_out) passed[s] = 1;
    }
  }
  const auto never = std::find(passed.begin(), passed.end(), 0);
  if (never == passed.end()) return {};
  return wrong("all of them leave out stage " + std::to_string(never - passed.begin()) + ", which would learn nothing");
}

CAUSEWAY_DECL result<std::vector<path>> parse_paths(std::string_view text) {
  std::vector<path> paths;
  bool begins = true;  // a path
  for (std::size_t at = 0; at < text.size();) {
    if (text[at] == ' ' || text[at] == ';') {
      begins = begins || text[at] == ';';
      ++at;
      continue;
    }
    const std::string_view word = text.substr(at, text.find_first_of(" ;", at) - at);
    net::peer_id peer = word == "-" ? left_out : anybody;
    if (word != "-" && word != "*") {
      const auto read = std::from_chars(word.data(), word.data() + word.size(), peer);
      if (read.ec != std::errc{} || read.ptr != word.data() + word.size() || peer >= anybody)
        return fail(errc::bad_text, "paths", "'" + std::string{word} + "' is no peer's number, - or *");
    }
    if (std::exchange(begins, false)) paths.emplace_back();
    paths.back().push_back(peer);
    at += word.size();
  }
  return paths;
}

CAUSEWAY_DECL std::string to_text(const std::vector<path>& paths) {
  std::string text;
  for (const path& way : paths) {
    if (!text.empty()) text += "; ";
    for (std::size_t s = 0; s < way.size(); ++s) {
      if (s > 0) text += ' ';
      text += way[s] == left_out ? "-" : way[s] == anybody ? "*" : std::to_string(way[s]);
    }
  }
  return text;
}

}}}}  // namespace causeway::CAUSEWAY_ABI::stage::routing

#endif  // CAUSEWAY_STAGE_IMPL_ROUTING_PLANNED_IPP
