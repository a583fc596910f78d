// What users profile when they profile C++: one program, many instances of the library's templates, inlined into each
// other. It makes log lines, takes them apart with regular expressions, and keeps, sorts, joins and prints them under
// keys of several types. Built with -g -O2.

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <functional>
#include <iomanip>
#include <iostream>
#include <list>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <queue>
#include <random>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <tuple>
#include <unordered_map>
#include <variant>
#include <vector>

namespace {

struct Entry {
  std::string host, path, user;
  std::uint64_t bytes;
  std::uint32_t status;
  double seconds;
};

using Value = std::variant<std::uint64_t, double, std::string>;

template <typename Random>
std::string line(Random& random) {
  std::ostringstream out;
  out << "10." << random() % 256 << '.' << random() % 8 << '.' << random() % 64 << " u" << random() % 5000 << " GET /a/"
      << std::hex << random() % 4096 << std::dec << "/file" << random() % 300 << ".sst " << 200 + random() % 5 * 101
      << ' ' << random() % 1000000 << ' ' << std::fixed << std::setprecision(4) << double(random() % 10000) / 997;
  return out.str();
}

std::optional<Entry> parsed(const std::string& text) {
  static const std::regex pattern(R"((\d+(?:\.\d+){3}) (\w+) (GET|PUT) (/[\w/.]+) (\d{3}) (\d+) ([\d.]+))");
  std::smatch match;
  if (!std::regex_match(text, match, pattern)) return std::nullopt;
  return Entry{match[1], match[4], match[2], std::stoull(match[6]), std::uint32_t(std::stoul(match[5])),
               std::stod(match[7])};
}

template <typename Map, typename Key>
std::uint64_t grouped(const std::vector<Entry>& entries, Key key) {
  Map groups;
  for (const auto& entry : entries) {
    auto& group = groups[key(entry)];
    group.push_back(&entry);
  }
  std::uint64_t sum = 0;
  for (auto& [name, group] : groups) {
    std::sort(group.begin(), group.end(), [](const Entry* a, const Entry* b) {
      return std::tie(a->bytes, a->path, a->seconds) < std::tie(b->bytes, b->path, b->seconds);
    });
    sum += std::accumulate(group.begin(), group.end(), std::uint64_t{0},
                           [](std::uint64_t n, const Entry* entry) { return n * 31 + entry->bytes; });
  }
  return sum;
}

template <typename Key>
std::uint64_t in_each_container(const std::vector<Entry>& entries, Key key) {
  using Type = std::decay_t<decltype(key(entries.front()))>;
  auto sum = grouped<std::map<Type, std::vector<const Entry*>>>(entries, key);
  sum += grouped<std::map<Type, std::deque<const Entry*>, std::greater<>>>(entries, key);
  std::set<Type> keys;
  std::multiset<Type, std::greater<>> all;
  std::priority_queue<Type> heap;
  for (const auto& entry : entries) {
    keys.insert(key(entry));
    all.insert(key(entry));
    heap.push(key(entry));
  }
  while (heap.size() > 10) heap.pop();
  std::list<Type> list(keys.begin(), keys.end());
  list.sort(std::greater<>());
  list.reverse();
  std::vector<Type> sorted(all.begin(), all.end());
  std::stable_sort(sorted.begin(), sorted.end());
  sorted.erase(std::unique(sorted.begin(), sorted.end()), sorted.end());
  return sum + sorted.size() + list.size();
}

template <typename Key>
std::uint64_t hashed(const std::vector<Entry>& entries, Key key) {
  using Type = std::decay_t<decltype(key(entries.front()))>;
  auto sum = grouped<std::unordered_map<Type, std::vector<const Entry*>>>(entries, key);
  std::unordered_multimap<Type, std::shared_ptr<Value>> values;
  for (const auto& entry : entries) {
    values.emplace(key(entry), std::make_shared<Value>(entry.bytes));
    values.emplace(key(entry), std::make_shared<Value>(entry.seconds));
    values.emplace(key(entry), std::make_shared<Value>(entry.user));
  }
  for (const auto& [name, value] : values) {
    sum += std::visit(
        [](const auto& held) -> std::uint64_t {
          std::ostringstream out;
          out << held;
          return out.str().size();
        },
        *value);
  }
  return sum;
}

std::string report(const std::vector<Entry>& entries) {
  std::ostringstream out;
  for (const auto& entry : entries)
    out << std::setw(16) << entry.host << std::setw(40) << std::left << entry.path << std::right << std::setw(10)
        << entry.bytes << std::setw(12) << std::setprecision(3) << entry.seconds << '\n';
  return out.str();
}

}  // namespace

int main(int, char** argv) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(argv[1] ? std::atoi(argv[1]) : 3);
  std::mt19937 random(991);
  std::uint64_t sum = 0;
  do {
    std::vector<Entry> entries;
    for (int n = 0; n < 4000; n++)
      if (auto entry = parsed(line(random))) entries.push_back(std::move(*entry));
    const std::vector<std::function<std::uint64_t(const std::vector<Entry>&)>> queries{
        [](auto& all) { return in_each_container(all, [](const Entry& entry) { return entry.host; }); },
        [](auto& all) { return in_each_container(all, [](const Entry& entry) { return entry.bytes; }); },
        [](auto& all) { return in_each_container(all, [](const Entry& entry) { return entry.seconds; }); },
        [](auto& all) {
          return in_each_container(all, [](const Entry& e) { return std::make_pair(e.status, e.path); });
        },
        [](auto& all) {
          return in_each_container(all, [](const Entry& e) { return std::make_tuple(e.user, e.bytes, e.status); });
        },
        [](auto& all) { return hashed(all, [](const Entry& entry) { return entry.user; }); },
        [](auto& all) { return hashed(all, [](const Entry& entry) { return entry.status; }); },
        [](auto& all) { return report(all).size(); },
    };
    for (const auto& query : queries) sum += query(entries);
  } while (std::chrono::steady_clock::now() < end);
  std::cout << sum << '\n';
}
