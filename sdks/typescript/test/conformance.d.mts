export interface Case {
  name: string;
}
export function loadCases(): Promise<Case[]>;
export function runCase(test: Case): Promise<void>;
