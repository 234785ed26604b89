// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COMM_IMPL_MIRROR_LINES_IPP
#define CAUSEWAY_COMM_IMPL_MIRROR_LINES_IPP

#include <causeway/comm/mirror_lines.hpp>

#include <causeway/collective/channels.hpp>

#include <string>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace comm { namespace detail {

CAUSEWAY_DECL bool mirror::holds(std::uint64_t clock, std::uint32_t most_ahead) const {
  if (!line || !met || rests) return false;
  return known < announced || (known < clock && clock - known >= most_ahead);
}

CAUSEWAY_DECL void mirror::say(mirror_word word, std::uint64_t clock) {
  if (line) line->send(with_header(mirror_header{.word = word, .clock = clock}, 0));
}

CAUSEWAY_DECL result<mirror_news> mirror::hear(time_point deadline) {
  CAUSEWAY_ASSIGN(auto bytes, line->take(deadline));
  CAUSEWAY_ASSIGN(const auto h, take_header<mirror_header>(bytes, line->peer()));
  const bool next = met && h.clock == known + 1;
  rests = rests && h.word == mirror_word::passed_on;
  if (h.word == mirror_word::hello && !met) {
    met = true;
    known = announced = h.clock;
  } else if (h.word == mirror_word::barrier && next) {
    announced = h.clock;
  } else if (h.word == mirror_word::rests && met && h.clock == known) {
    rests = true;
  } else if (h.word == mirror_word::done && met && h.clock == known) {
    known = no_more;
  } else if (h.word == mirror_word::passed_on ? !met || h.clock != known : h.word != mirror_word::updates || !next) {
    return fail(errc::protocol, "peer " + std::to_string(line->peer()),
                "it sent what makes no sense after its clock " + std::to_string(known));
  }
  return mirror_news{h.word, bytes};
}

CAUSEWAY_DECL void mirror_audience::open(net::any_transport& transport, const std::vector<net::peer_index>& peers,
                                         std::size_t most) {
  constexpr std::uint32_t channel = collective::channels::updates;
  mirrors.clear();
  is_over = false;
  for (std::size_t place = 0; place < peers.size(); ++place) {
    if (peers[place] == transport.self()) continue;
    mirror& m = mirrors.emplace_back();
    m.line = std::make_unique<hub_line>(transport, peers[place], channel, channel, most);
    m.place = place;
  }
}

CAUSEWAY_DECL void mirror_audience::meet(net::any_transport& transport, const std::vector<net::peer_index>& peers,
                                         std::size_t most, std::uint64_t clock) {
  open(transport, peers, most);
  say(mirror_word::hello, clock);
}

CAUSEWAY_DECL void mirror_audience::say(mirror_word word, std::uint64_t clock) {
  for (mirror& m : mirrors) m.say(word, clock);
}

CAUSEWAY_DECL std::vector<collective::peer_group> audiences_of(const collective::region_list& groups,
                                                               net::peer_index self) {
  const collective::peer_group own = collective::group_of(groups, self);
  if (own.front() != self || groups.size() == 1) return {own};
  return {own, collective::hubs_of(groups)};
}

}}}}  // namespace causeway::CAUSEWAY_ABI::comm::detail

#endif  // CAUSEWAY_COMM_IMPL_MIRROR_LINES_IPP
