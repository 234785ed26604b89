// SPDX-License-Identifier: Apache-2.0
// All-reduce over TCP and shared memory (--shared-memory off: over TCP alone), one process per peer; bench/comm/compare.py
// starts them and compares with Gloo and Open MPI. Peer 0 listens at --host, the others join it. Every repeat starts after
// a barrier; the time of a repeat is that of peer 0, which is what gloo_allreduce.py and mpi_allreduce.c take as well.
// --codec takes a list: its codecs take turns, repeat by repeat over the same connections, and are compared with the first
// of them.

#include <causeway/collective/all_reduce.hpp>
#include <causeway/collective/barrier.hpp>
#include <causeway/collective/channels.hpp>
#include <causeway/compress/bf16.hpp>
#include <causeway/compress/bits.hpp>
#include <causeway/compress/block_int8.hpp>
#include <causeway/compress/fp16.hpp>
#include <causeway/compress/none.hpp>
#include <causeway/compress/sigma_int8.hpp>
#include <causeway/core/clock.hpp>
#include <causeway/core/rng.hpp>
#include <causeway/net/asio_transport.hpp>
#include <causeway/net/rendezvous.hpp>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

namespace {

using namespace causeway;

struct settings {
  std::uint32_t rank = 0, peers = 4, streams = 0, window = 0, threads = 1;
  double mib = 64;
  int repeats = 10, warm = 2;
  std::size_t chunk_kib = 0, buffer_kib = 0;
  std::string host = "127.0.0.1:29500", listen = "127.0.0.1:0", codec = "none", how = "automatic", congestion = "bbr";
  std::string shared_memory = "on";
};

[[noreturn]] void give_up(const std::string& why) {
  std::fprintf(stderr, "allreduce: %s\n", why.c_str());
  std::exit(2);
}

template <class T>
void read_number(std::string_view text, T& value) {
  if (std::from_chars(text.data(), text.data() + text.size(), value).ec != std::errc{}) {
    give_up("not a number: " + std::string{text});
  }
}

settings read_settings(int argc, char** argv) {
  settings s;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string_view name = argv[i], value = argv[i + 1];
    if (name == "--rank")
      read_number(value, s.rank);
    else if (name == "--peers")
      read_number(value, s.peers);
    else if (name == "--streams")
      read_number(value, s.streams);
    else if (name == "--window")
      read_number(value, s.window);
    else if (name == "--threads")
      read_number(value, s.threads);
    else if (name == "--mib")
      read_number(value, s.mib);
    else if (name == "--repeats")
      read_number(value, s.repeats);
    else if (name == "--warm")
      read_number(value, s.warm);
    else if (name == "--chunk-kib")
      read_number(value, s.chunk_kib);
    else if (name == "--buffer-kib")
      read_number(value, s.buffer_kib);
    else if (name == "--host")
      s.host = value;
    else if (name == "--listen")
      s.listen = value;
    else if (name == "--codec")
      s.codec = value;
    else if (name == "--algorithm")
      s.how = value;
    else if (name == "--congestion")
      s.congestion = value;
    else if (name == "--shared-memory")
      s.shared_memory = value;
    else
      give_up("unknown option " + std::string{name});
  }
  return s;
}

net::membership meet(const settings& s) {
  net::rendezvous_options options;
  options.run_id = 0xBE7C4;
  options.deadline = steady_clock{}.now() + std::chrono::seconds{60};
  options.streams_per_link = s.streams;
  options.transport.socket_buffer = s.buffer_kib << 10U;
  options.transport.bbr = s.congestion == "bbr";
  options.transport.shared_memory = s.shared_memory == "on";
  const auto address = net::parse_endpoint(s.host);
  const auto listen = net::parse_endpoint(s.listen);
  if (!address) give_up(address.error().text());
  if (!listen) give_up(listen.error().text());
  options.listen = *listen;
  if (s.rank != 0) options.wanted_index = s.rank;
  auto members = [&]() -> result<net::membership> {
    if (s.rank != 0) return net::join(*address, options);
    CAUSEWAY_ASSIGN(net::listener at, net::open_listener(*address));
    return net::host(std::move(at), s.peers, {}, options);
  }();
  if (!members) give_up(members.error().text());
  return std::move(members).value();
}

collective::algorithm algorithm_of(const std::string& name) {
  if (name == "ring") return collective::algorithm::ring;
  if (name == "butterfly") return collective::algorithm::butterfly;
  if (name == "one_shot") return collective::algorithm::one_shot;
  return collective::algorithm::automatic;
}

result<void> exchange(net::asio_transport& t, const net::message_id& id, const std::string& codec, std::span<float> x,
                      const collective::collective_options& options) {
  if (codec == "none") return collective::all_reduce_mean(t, id, x, options);
  if (codec == "fp16") return collective::exchange_mean(t, id, compress::fp16{}, x, options);
  if (codec == "bf16") return collective::exchange_mean(t, id, compress::bf16{}, x, options);
  if (codec == "block_int8") return collective::exchange_mean(t, id, compress::block_int8{}, x, options);
  if (codec == "sigma_int8") return collective::exchange_mean(t, id, compress::sigma_int8{}, x, options);
  if (codec == "bits8") return collective::exchange_mean(t, id, compress::bits<8>{}, x, options);
  if (codec == "bits4") return collective::exchange_mean(t, id, compress::bits<4>{}, x, options);
  if (codec == "bits4_stochastic") {
    return collective::exchange_mean(t, id, compress::bits<4>{{.stochastic = true}}, x, options);
  }
  if (codec == "bits2") return collective::exchange_mean(t, id, compress::bits<2>{}, x, options);
  give_up("unknown codec " + codec);
}

std::vector<std::string> split(const std::string& list) {
  std::vector<std::string> names;
  for (std::size_t at = 0; at <= list.size();) {
    const std::size_t end = std::min(list.find(',', at), list.size());
    names.push_back(list.substr(at, end - at));
    at = end + 1;
  }
  return names;
}

/// Normal values z; peer p gives (p + 1)·z, so the mean is (n + 1)/2·z on every peer.
std::vector<float> draw(std::size_t count) {
  std::vector<float> z(count);
  rng random{7};
  for (float& v : z) v = static_cast<float>(random.normal());
  return z;
}
void fill(std::vector<float>& x, const std::vector<float>& z, std::uint32_t rank) {
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(rank + 1) * z[i];
}
/// The relative root mean square error is that of the codec, which loses half of the values' energy at most.
void check(const std::vector<float>& x, const std::vector<float>& z, std::uint32_t peers, bool exact) {
  const double mean = static_cast<double>(peers + 1) / 2;
  double off = 0, all = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double want = mean * static_cast<double>(z[i]), miss = static_cast<double>(x[i]) - want;
    off += miss * miss;
    all += want * want;
  }
  const double error = std::sqrt(off / all);
  if (!(error < (exact ? 1e-6 : 0.7))) give_up("wrong result: relative error " + std::to_string(error));
}

struct figures {
  std::string codec;
  std::vector<double> times{};
  std::uint64_t sent = 0;

  [[nodiscard]] double median() const { return times[times.size() / 2]; }
};

void print(const settings& s, const figures& f, const figures& first) {
  const double bus = 2.0 * (s.peers - 1) / s.peers * s.mib * 1048576;
  std::printf("causeway n=%u %g MiB codec=%-16s: s min %.4f med %.4f max %.4f  bus MB/s med %7.1f  sent bytes %llu",
              s.peers, s.mib, f.codec.c_str(), f.times.front(), f.median(), f.times.back(), bus / f.median() / 1e6,
              static_cast<unsigned long long>(f.sent));
  std::printf(&f == &first ? "\n" : "  %.2f times %s\n", first.median() / f.median(), first.codec.c_str());
}

}  // namespace

int main(int argc, char** argv) {
  const settings s = read_settings(argc, argv);
  net::membership members = meet(s);
  net::asio_transport& t = members.transport;
  thread_pool pool{s.threads};
  collective::collective_workspace workspace;
  collective::collective_options options{.how = algorithm_of(s.how), .pool = &pool, .workspace = &workspace};
  if (s.peers > 1) options = collective::tuned_for_streams(options, t.streams(s.rank == 0 ? 1 : 0));
  if (s.chunk_kib != 0) options.chunk_bytes = s.chunk_kib << 10U;
  if (s.window != 0) options.window = s.window;
  const std::vector<float> z = draw(static_cast<std::size_t>(s.mib * 262144));
  std::vector<float> x(z.size());
  std::vector<figures> all;
  for (const std::string& name : split(s.codec)) all.push_back({.codec = name});
  const steady_clock clock;
  std::uint64_t step = 0;
  for (int i = 0; i < s.repeats + s.warm; ++i) {
    for (figures& f : all) {
      fill(x, z, s.rank);
      options.deadline = clock.now() + std::chrono::seconds{600};
      if (auto met = collective::barrier(t, {.channel = collective::channels::metrics, .step = ++step}, options); !met) {
        give_up(met.error().text());
      }
      const std::uint64_t before = t.stats().bytes_sent;
      const time_point start = clock.now();
      const auto outcome = exchange(t, {.channel = collective::channels::gradients, .step = step}, f.codec, x, options);
      const double took = seconds(clock.now() - start);
      if (!outcome) give_up(outcome.error().text());
      f.sent = t.stats().bytes_sent - before;
      if (i < s.warm) check(x, z, s.peers, f.codec == "none");
      if (i >= s.warm) f.times.push_back(took);
    }
  }
  if (s.rank != 0) return 0;
  std::printf("seconds");
  for (const double time : all.front().times) std::printf(" %.6f", time);
  std::printf("\n");
  for (figures& f : all) std::sort(f.times.begin(), f.times.end());
  for (const figures& f : all) print(s, f, all.front());
  return 0;
}
