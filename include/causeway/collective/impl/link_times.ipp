// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COLLECTIVE_IMPL_LINK_TIMES_IPP
#define CAUSEWAY_COLLECTIVE_IMPL_LINK_TIMES_IPP

#include <causeway/collective/link_times.hpp>

#include <causeway/collective/conversation.hpp>
#include <causeway/collective/gather.hpp>

#include <span>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace collective {

// A table of the "circle method": one peer stays where it is, the others go round.
CAUSEWAY_DECL net::peer_index probe_partner(net::peer_index self, std::uint32_t peers, std::uint32_t turn) {
  const std::uint32_t round = peers % 2 == 0 ? peers - 1 : peers;  // places that go round
  if (self == round) return turn % round;                          // the one that stays
  const std::uint32_t partner = (2 * turn + round - self) % round;
  if (partner != self) return partner;
  return peers % 2 == 0 ? round : self;
}

}}}  // namespace causeway::CAUSEWAY_ABI::collective

namespace causeway { inline namespace CAUSEWAY_ABI { namespace collective { namespace detail {

/// The talk of two peers: `ready`, then a byte and a probe. Channels: 0, 1, 2.
struct link_talk {
  const exchange_port& port;
  net::peer_index other;
  std::span<std::byte> probe;

  /// Seconds from the byte to the end of the probe.
  result<double> listen(const any_clock& clock) const {
    conversation talk;
    talk.open(port, 3);
    std::byte ready{1}, first{};
    talk.receive(1, other, part{1}, {&first, 1});
    talk.receive(2, other, part{2}, probe);
    talk.send(0, other, part{0}, {&ready, 1});
    CAUSEWAY_TRY(talk.finish(0, other, port.options.deadline));
    CAUSEWAY_TRY(talk.wait(1, other, port.options.deadline));
    const time_point begin = clock.now();
    CAUSEWAY_TRY(talk.wait(2, other, port.options.deadline));
    return seconds(clock.now() - begin);
  }
  result<void> answer() const {
    conversation talk;
    talk.open(port, 3);
    std::byte ready{}, first{1};
    talk.receive(0, other, part{0}, {&ready, 1});
    CAUSEWAY_TRY(talk.wait(0, other, port.options.deadline));
    talk.send(1, other, part{1}, {&first, 1});
    talk.send(2, other, part{2}, probe);
    CAUSEWAY_TRY(talk.finish(1, other, port.options.deadline));
    return talk.finish(2, other, port.options.deadline);
  }
};

}}}}  // namespace causeway::CAUSEWAY_ABI::collective::detail

namespace causeway { inline namespace CAUSEWAY_ABI { namespace collective {

CAUSEWAY_DECL result<void> measure_links(net::any_transport& transport, const any_clock& clock, const net::message_id& id,
                                         const collective_options& options, std::uint32_t bytes,
                                         std::vector<double>& costs) {
  const std::uint32_t peers = transport.size();
  const net::peer_index self = transport.self();
  if (bytes == 0) return fail(errc::invalid_argument, "link_probe", "a probe of 0 bytes takes no time; use 1 or more");
  std::vector<std::byte> probe(bytes);
  std::vector<double> own(peers), all(std::size_t{peers} * peers);  // own[p]: from p to here
  const exchange_port port{transport, id, options};
  for (std::uint32_t turn = 0; turn < (peers % 2 == 0 ? peers - 1 : peers); ++turn) {
    const net::peer_index other = probe_partner(self, peers, turn);
    if (other == self) continue;
    const detail::link_talk talk{port, other, probe};
    if (self > other) CAUSEWAY_TRY(talk.answer());
    CAUSEWAY_ASSIGN(const double taken, talk.listen(clock));
    own[other] = taken / bytes;
    if (self < other) CAUSEWAY_TRY(talk.answer());
  }
  net::message_id told = id;
  told.channel += 3;
  if (peers > 1) {
    CAUSEWAY_TRY(
        all_gather(transport, told, std::as_bytes(std::span{own}), std::as_writable_bytes(std::span{all}), options));
  }
  const bool known = costs.size() == all.size();
  costs.resize(all.size());
  for (net::peer_index to = 0; to < peers; ++to) {
    for (net::peer_index from = 0; from < peers; ++from) {
      double& cost = costs[std::size_t{from} * peers + to];
      const double now = all[std::size_t{to} * peers + from];
      cost = known ? (cost + now) / 2 : now;
    }
  }
  return {};
}

}}}  // namespace causeway::CAUSEWAY_ABI::collective

#endif  // CAUSEWAY_COLLECTIVE_IMPL_LINK_TIMES_IPP
