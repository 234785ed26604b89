// SPDX-License-Identifier: Apache-2.0
#include "token_fetcher.hpp"

#include <causeway/core/clock.hpp>

#include <algorithm>
#include <utility>

#include "run_notice.hpp"
#include "stop.hpp"

namespace app {
namespace {

namespace data = causeway::data;
namespace net = causeway::net;
using causeway::errc;
using causeway::fail;
using namespace std::chrono_literals;
using clock = std::chrono::steady_clock;

constexpr std::size_t at_once = 64;  // chunks of one request, 3.9 MB
constexpr std::uint64_t header_bytes = 1024;

}  // namespace

token_fetcher::token_fetcher(chunk_list list, chunk_store tokens, chunk_store validation, std::size_t width,
                             std::int64_t vocabulary, std::uint64_t text_hash, std::vector<std::string> sources,
                             std::chrono::seconds patience)
    : list_{std::move(list)},
      stores_{std::move(tokens), std::move(validation)},
      width_{width},
      vocabulary_{vocabulary},
      text_hash_{text_hash},
      patience_{patience},
      sources_{sources.begin(), sources.end()} {
  thread_ = std::thread{[this] { work(); }};
}

token_fetcher::~token_fetcher() {
  {
    const std::lock_guard lock{mutex_};
    over_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void token_fetcher::hear_of(const std::string& address) {
  const std::lock_guard lock{mutex_};
  if (!address.empty() && std::find(sources_.begin(), sources_.end(), address) == sources_.end()) {
    sources_.push_back(address);
  }
}

bool token_fetcher::has(std::size_t chunk) const {
  const std::size_t first = list_.token_chunks();
  return chunk < first ? stores_[0].has(chunk) : stores_[1].has(chunk - first);
}

std::set<std::size_t> token_fetcher::chunks_of(std::uint32_t item, std::span<const token_range> ranges) const {
  std::set<std::size_t> chunks;
  const std::size_t base = item == tokens_item ? 0 : list_.token_chunks();
  for (const token_range& r : ranges) {
    const std::uint64_t begin = header_bytes + static_cast<std::uint64_t>(r.first) * width_;
    const std::uint64_t end = begin + static_cast<std::uint64_t>(r.count) * width_;
    for (std::uint64_t at = begin / chunk_bytes; at * chunk_bytes < end; ++at) {
      chunks.insert(base + at);
    }
  }
  return chunks;
}

void token_fetcher::want(std::uint32_t item, std::span<const token_range> ranges) {
  {
    const std::lock_guard lock{mutex_};
    later_ = chunks_of(item, ranges);
  }
  changed_.notify_all();
}

causeway::result<void> token_fetcher::need(std::uint32_t item, std::span<const token_range> ranges) {
  const std::set<std::size_t> chunks = chunks_of(item, ranges);
  std::unique_lock lock{mutex_};
  CAUSEWAY_TRY(wait_for(lock, chunks));
  for (const std::size_t chunk : chunks) {
    if (!checked_.contains(chunk)) CAUSEWAY_TRY(check(chunk));
    checked_.insert(chunk);
  }
  return {};
}

causeway::result<void> token_fetcher::wait_for(std::unique_lock<std::mutex>& lock, std::set<std::size_t> chunks) {
  auto deadline = clock::now() + patience_;
  for (std::size_t before = chunks.size();; before = chunks.size()) {
    std::erase_if(chunks, [&](std::size_t chunk) { return has(chunk); });
    if (chunks.empty()) return {};
    if (chunks.size() < before) deadline = clock::now() + patience_;
    if (stop_requested()) return fail(errc::cancelled, "tokens", "stopped before they came");
    if (clock::now() >= deadline) {
      return fail(errc::unreachable, "tokens",
                  "of this run that are not here: no peer has sent any for " + std::to_string(patience_.count()) +
                      " seconds (" + (failure_ ? failure_->text() : "nobody answers") +
                      "). Join at a peer that has them, or give the text with --data.path");
    }
    urgent_.insert(chunks.begin(), chunks.end());
    changed_.notify_all();
    changed_.wait_for(lock, 100ms);
  }
}

// Who wrote them may have had another tokenizer.
causeway::result<void> token_fetcher::check(std::size_t chunk) const {
  const std::size_t split = list_.token_chunks();
  const bool validation = chunk >= split;
  const std::uint64_t offset = (chunk - (validation ? split : 0)) * std::uint64_t{chunk_bytes};
  std::vector<std::byte> bytes = piece(validation ? validation_item : tokens_item, offset);
  if (bytes.empty()) return fail(errc::io_failed, "tokens", "that came cannot be read; see that the disk is well");
  const std::size_t skip = offset == 0 ? std::min<std::size_t>(bytes.size(), header_bytes) : 0;
  const auto size = static_cast<std::int64_t>((bytes.size() - skip) / width_);
  const data::token_stream tokens{nullptr, bytes.data() + skip, size, static_cast<data::token_width>(width_)};
  return tokens.check_vocabulary(vocabulary_);
}

std::vector<std::byte> token_fetcher::piece(std::uint32_t item, std::uint64_t offset) const {
  const chunk_store& store = stores_[item == tokens_item ? 0 : 1];
  const std::uint64_t chunk = offset / chunk_bytes;
  if (offset % chunk_bytes != 0 || chunk >= store.chunks() || !store.has(static_cast<std::size_t>(chunk))) return {};
  return store.read(static_cast<std::size_t>(chunk));
}

void token_fetcher::work() {
  std::unique_lock lock{mutex_};
  for (;;) {
    const auto asked = [&] { return over_ || !urgent_.empty() || !later_.empty(); };
    if (!changed_.wait_for(lock, 1s, asked)) {
      there_.reset();  // a peer talks to a few others at a time
      changed_.wait(lock, asked);
    }
    if (over_) return;
    std::set<std::size_t>& from = urgent_.empty() ? later_ : urgent_;
    std::vector<std::size_t> chunks;
    for (const std::size_t chunk : from) {
      if (!has(chunk) && chunks.size() < at_once) chunks.push_back(chunk);
    }
    if (chunks.empty()) {
      from.clear();
      continue;
    }
    lock.unlock();
    const auto outcome = fetch(chunks);
    lock.lock();
    if (outcome) {
      failure_.reset();
      changed_.notify_all();
      continue;
    }
    failure_ = outcome.error();
    later_.clear();  // nobody waits for those yet
    if (++next_source_ % std::max<std::size_t>(1, sources_.size()) != 0) continue;
    changed_.wait_for(lock, 200ms, [&] { return over_.load(); });  // all of them were asked
  }
}

causeway::result<void> token_fetcher::connect() {
  if (there_) return {};
  std::string source;
  {
    const std::lock_guard lock{mutex_};
    if (sources_.empty()) return fail(errc::unreachable, "tokens", "no address of a peer that has them is known");
    source = sources_[next_source_ % sources_.size()];
  }
  CAUSEWAY_ASSIGN(const net::endpoint address, net::parse_endpoint(source));
  const auto deadline = causeway::steady_clock{}.now() + 10s;
  CAUSEWAY_ASSIGN(auto there, net::inquiry::open(address, {deadline, &over_, true}));
  CAUSEWAY_ASSIGN(const run_notice notice, run_notice::decode(there.about()));
  if (notice.text_hash != text_hash_) return fail(errc::wrong_run, source, "trains on another text");
  there_.emplace(std::move(there));
  return {};
}

// Neighbours in one request.
causeway::result<void> token_fetcher::fetch(const std::vector<std::size_t>& chunks) {
  CAUSEWAY_TRY(connect());
  const std::size_t split = list_.token_chunks();
  const auto say = [&](std::size_t) {
    { const std::lock_guard lock{mutex_}; }  // who waits has looked, or will see it
    changed_.notify_all();
  };
  for (std::size_t i = 0; i < chunks.size();) {
    std::size_t end = i + 1;
    while (end < chunks.size() && chunks[end] == chunks[end - 1] + 1 && chunks[end] != split) ++end;
    const bool validation = chunks[i] >= split;
    const std::size_t base = validation ? split : 0;
    auto came = stores_[validation ? 1 : 0].fetch(*there_, validation ? validation_item : tokens_item, chunks[i] - base,
                                                  chunks[end - 1] + 1 - base, say);
    if (!came) {
      there_.reset();  // another one may have it
      return came;
    }
    i = end;
  }
  for (chunk_store& store : stores_) CAUSEWAY_TRY(store.finish());
  return {};
}

}  // namespace app
